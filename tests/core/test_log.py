"""Loggers import Python's ``logging`` with the first word that somebody may hear."""

from __future__ import annotations

import logging
import subprocess
import sys

from clgraph.core.log import INFO, WARNING, Log


def test_what_nobody_can_have_asked_for_imports_nothing_and_a_warning_is_shown() -> None:
    code = (
        "import sys; from clgraph.core.log import Log; log = Log('clgraph.x'); log.info('quiet'); log.debug('quiet');"
        "assert 'logging' not in sys.modules; log.warning('%s is loud', 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "1 is loud\n")


def test_messages_have_the_name_the_level_and_the_place_of_who_says_them(caplog) -> None:
    log = Log("clgraph.said")
    caplog.set_level(logging.DEBUG, log.name)
    for say in (log.debug, log.info, log.warning):
        say("%s of %d", "one", 3)
    log.say(INFO, "four")
    assert [r.levelname for r in caplog.records] == ["DEBUG", "INFO", "WARNING", "INFO"]
    assert {r.getMessage() for r in caplog.records} == {"one of 3", "four"}
    assert {(r.name, r.filename) for r in caplog.records} == {(log.name, "test_log.py")}


def test_levels_are_those_that_are_asked_for(caplog) -> None:
    log = Log("clgraph.asked")
    caplog.set_level(logging.WARNING, log.name)
    log.info("not heard")
    assert (log.shows(INFO), log.shows(WARNING), caplog.records) == (False, True, [])
