"""Long work is told of while it lasts: where nobody hears info as a warning, else again after a while."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time

import pytest

from clgraph.core import progress
from clgraph.core.log import Log

LOG = Log("clgraph.lasting")


def _wait_for(caplog: pytest.LogCaptureFixture, count: int) -> None:
    until = time.monotonic() + 60
    while len(caplog.records) < count and time.monotonic() < until:
        time.sleep(0.01)


def test_what_lasts_is_a_warning_where_nobody_hears_info(caplog, monkeypatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(progress, "AGAIN_SECONDS", 0.02)
    caplog.set_level(logging.WARNING, LOG.name)
    with progress.lasting(LOG, "%s is made of 100 %% cotton", "it"):
        _wait_for(caplog, 2)
    said = len(caplog.records)
    assert said >= 2, "it is told again and again"
    assert {(r.levelname, r.getMessage()) for r in caplog.records} == {
        ("WARNING", "it is made of 100 % cotton: 0 s so far")
    }
    assert not [thread for thread in threading.enumerate() if thread.name == "clgraph-lasting"]


def test_who_hears_info_is_told_again_later_and_by_info(caplog, monkeypatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "AGAIN_SECONDS", 0.3)
    caplog.set_level(logging.INFO, LOG.name)
    begun = time.monotonic()
    with progress.lasting(LOG, "it is made"):
        _wait_for(caplog, 1)
    assert time.monotonic() - begun >= 0.3
    assert caplog.records[0].levelname == "INFO"


def test_what_is_soon_over_or_fails_says_nothing(caplog) -> None:
    caplog.set_level(logging.DEBUG, LOG.name)
    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError), progress.lasting(LOG, "it is made"):
        raise ZeroDivisionError
    assert (caplog.records, time.monotonic() - begun < progress.PATIENCE_SECONDS) == ([], True)


def test_a_script_that_set_up_no_logging_is_told_on_its_error_stream() -> None:
    code = (
        "import time; from clgraph.core import progress; from clgraph.core.log import Log; "
        "progress.PATIENCE_SECONDS = 0.01\n"
        "with progress.lasting(Log('clgraph.x'), 'it is made'): time.sleep(0.3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "it is made: 0 s so far\n")
