from __future__ import annotations

import io
import logging
import time

import pytest
from rich.console import Console
from rich.progress import Progress

import clgraph
from clgraph.cli import progress
from clgraph.core.progress import LOG, counted, tell
from tests.support.models import small_model


def _screen(monkeypatch: pytest.MonkeyPatch, patience: float) -> io.StringIO:
    screen = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=screen, force_terminal=True, width=80))
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", patience)
    return screen


def test_what_takes_long_is_shown_with_what_is_told_and_logged_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _screen(monkeypatch, 0.0)
    log, before = logging.getLogger("clgraph.test"), LOG.logger.level
    with progress.working("compiling"):
        log.info("library core")
        for text in ("library core", "kernel 3 of 9: softmax"):
            end = time.monotonic() + 20
            while f"compiling: {text}" not in screen.getvalue() and time.monotonic() < end:
                time.sleep(0.02)
            assert f"compiling: {text}" in screen.getvalue()
            tell("kernel", 3, 9, "softmax")
    assert (log.isEnabledFor(logging.INFO), LOG.logger.level) == (False, before)


def test_what_is_over_soon_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _screen(monkeypatch, 60.0)
    with progress.working("compiling"):
        tell("kernel", 3, 9, "softmax")
    assert screen.getvalue() == ""


def test_where_there_is_no_terminal_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    with progress.working("compiling"):
        logging.getLogger("clgraph.test").info("library core")
        tell("kernel", 3, 9, "softmax")
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_a_part_of_the_work_is_shown_behind_what_it_is_a_part_of_until_that_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown = Progress(console=Console(file=io.StringIO()))
    handler = progress._Handler(shown, "m")
    caplog.set_level(logging.DEBUG, LOG.name)
    LOG.logger.addHandler(handler)
    try:
        found = []
        for told in (
            lambda: tell("pass", 4, 45, "fuse"),
            lambda: list(counted("kernel", ["one", "[two]"], str)),
            lambda: list(counted("kernel", ["alone"], str)),
            lambda: LOG.info("what a pass has done"),
            lambda: tell("pass", 5, 45, "place"),
        ):
            told()
            found.append(shown.tasks[0].description)
    finally:
        LOG.logger.removeHandler(handler)
    inside = r"m: pass 4 of 45, kernel 2 of 2: \[two]"
    assert found == ["m: pass 4 of 45: fuse", inside, inside, inside, "m: pass 5 of 45: place"]


@pytest.mark.opencl
def test_a_compilation_tells_its_passes_and_kernels(device: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOG.name)
    model = clgraph.compile(small_model(), device, config={"model_cache": 0})
    told = [r.args for r in caplog.records if r.name == LOG.name and r.levelno == logging.DEBUG]
    last = model.passes[-1].number
    assert [a[1:] for a in told if a[0] == "pass"] == [(p.number, last, p.name) for p in model.passes]
    kernels = [a for a in told if a[0] == "kernel"]
    assert kernels
    assert kernels[-1][1] == kernels[-1][2]
    done = [r.getMessage() for r in caplog.records if r.name == LOG.name and r.levelno == logging.INFO]
    assert [line.split(":")[0] for line in done] == [f"pass {p.number:02} of {last} {p.name}" for p in model.passes]
