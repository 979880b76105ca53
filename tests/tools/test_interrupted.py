"""Tools that run for long end with what they have when they are interrupted, and show how far they are."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.interruptible import INTERRUPTED, interruptible
from tests.support.matrix import Figures
from tests.support.members import Tally
from tests.support.optimised import Row
from tests.support.random_dags import Counts
from tests.tools.test_starting import main_of
from tools.opencl.implementations import Implementation, Installed
from tools.opencl.trials import run

HOST = ("--device", "host")
MACHINE = Installed(Implementation("machine", "this machine", ""))


@pytest.fixture(autouse=True)
def interrupts():
    """Python leaves interrupts ignored that a shell has ignored for what it runs behind itself."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_follows_the_work_runs_when_it_is_interrupted(number: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM)
    done = []
    with interruptible() as work:
        done.append(1)
        os.kill(os.getpid(), number)
        done.append(2)
    assert done == [1]
    assert work.interrupted
    assert work.status(wrong=False) == work.status(wrong=True) == INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) == before


def test_work_that_comes_to_its_end_or_fails_does_so() -> None:
    with interruptible() as work:
        pass
    assert (work.status(wrong=[]), work.status(wrong=["x"])) == (0, 1)
    with pytest.raises(ValueError, match="of the work"), interruptible():
        raise ValueError("of the work")


def interrupted_after(*results: Any) -> Callable[..., Any]:
    """Return a function that gives each of *results* once, and is interrupted then."""
    left = iter(results)

    def given(*_: Any, **__: Any) -> Any:
        for result in left:
            return result
        raise KeyboardInterrupt

    return given


def yielding(*results: Any) -> Callable[..., Iterator[Any]]:
    """Return a generator of *results* that is interrupted then."""

    def given(*_: Any) -> Iterator[Any]:
        yield from results
        raise KeyboardInterrupt

    return given


def campaign(plan: Any, show: Callable[[dict[str, Any]], None]) -> None:
    show({"number": 0, "seed": "", "changes": [], "kind": "agrees", "detail": ""})
    raise KeyboardInterrupt


@pytest.fixture
def logged() -> Iterator[None]:
    """Undo what tools/check_families and tools/optimised_matrix do to logging."""
    yield
    logging.disable(logging.NOTSET)


FIGURES = Figures("made", 9, 8, 7, [], [], 0, 0, 0)


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(
    ("tool", "patched", "printed"),
    [
        (("onnx_suite", *HOST, "--only", "test_acos"), {"outcome": interrupted_after("")}, "| all | 1 of 4 |"),
        (("model_matrix",), {"measure": interrupted_after(FIGURES)}, "| made | 9 | 8 | 7 |"),
        (
            ("optimised_matrix",),
            {"found_of": yielding((Row("made", "all", {}, None, None), 0.0))},
            "1 models as they are written, 0 of them wrong",
        ),
        (("check_families",), {"tallies_of": yielding(Tally(without=1))}, "all: 0 models"),
        (("fuzz",), {"run_campaign": campaign}, "| agrees | 1 | 100.0 |"),
        (("fuzz_memory",), {"check_random": interrupted_after(Counts(1))}, "1 graphs, 0 plans"),
        (
            ("mutate",),
            {"tried": interrupted_after("passes"), "working_copy": lambda folder: folder},
            "1 changes, 1 of them not noticed",
        ),
        (
            ("check_races", "softmax", "reduce"),
            {
                "uncovered": list,
                "installed": lambda *_: MACHINE,
                "run": lambda *_, **__: None,
                "not_run": dict,
                "check": interrupted_after(),
            },
            "0 implementations, 0 wrong",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_tool_that_is_interrupted_prints_what_it_has(
    tool: tuple[str, ...],
    patched: dict[str, Any],
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for variable in ("ONNX_MODELS", "CLGRAPH_STRICT"):  # tools/onnx_suite sets them
        monkeypatch.setenv(variable, "0")
    main = main_of(tool[0], monkeypatch, *tool[1:])
    for name, value in patched.items():
        monkeypatch.setitem(main.__globals__, name, value)
    assert main() == INTERRUPTED
    assert printed in capsys.readouterr().out


def test_a_trial_that_is_interrupted_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[str]] = []

    def interrupt(process: subprocess.Popen[str], timeout: float | None = None) -> None:
        begun.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(MACHINE, [sys.executable, "-c", "import time; time.sleep(60)"], 60)
    assert begun[0].wait(10) == -signal.SIGKILL


def suite_of_one(monkeypatch: pytest.MonkeyPatch, outcome: str) -> Callable[[], int]:
    """Return the main function of tools/onnx_suite for a suite of one test that ends so."""
    for variable in ("ONNX_MODELS", "CLGRAPH_STRICT"):
        monkeypatch.setenv(variable, "0")
    main = main_of("onnx_suite", monkeypatch, *HOST)
    changed = {"suite": lambda device: {"test_abs": None}, "outcome": lambda test: outcome, "SHOWN_EVERY": 1}
    for name, value in changed.items():
        monkeypatch.setitem(main.__globals__, name, value)
    return main


def test_the_suite_shows_how_far_it_is_and_what_is_not_as_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite_of_one(monkeypatch, "AssertionError: 1 is not 2")() == 1
    shown = capsys.readouterr().err
    assert shown.count("test_abs is not listed and fails: AssertionError") == 2
    assert shown.count("1 of 1, 1 not as listed, 0 s") == 2


def test_of_the_suite_a_slice_and_one_of_its_ways_may_be_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run: list[tuple[str, str]] = []
    for number, way, other in (("1/2", 0, "CLGRAPH_STRICT=1"), ("2/2", 1, "nodes may run on the host")):
        for variable in ("ONNX_MODELS", "CLGRAPH_STRICT"):
            monkeypatch.setenv(variable, "0")
        main = main_of("onnx_suite", monkeypatch, *HOST, "--slice", number, "--strict", str(way))
        names = {name: name for name in ("test_a", "test_b", "test_c")}
        outcome = lambda test: run.append((test, os.environ["CLGRAPH_STRICT"])) or ""  # noqa: E731
        monkeypatch.setitem(main.__globals__, "suite", lambda device, names=names: names)
        monkeypatch.setitem(main.__globals__, "outcome", outcome)
        assert main() == 0
        assert other not in capsys.readouterr().out
    assert run == [("test_a", "0"), ("test_c", "0"), ("test_b", "1")]


def test_the_suite_says_what_is_listed_and_is_no_test_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = suite_of_one(monkeypatch, "")
    monkeypatch.setitem(main.__globals__, "gone", lambda tests, listed, version: ["test_gone"] if list(tests) else [])
    assert main() == 1
    assert capsys.readouterr().out.count("test_gone is listed and not in the suite") == 2


def test_every_tool_is_checked_by_ruff() -> None:
    root = Path(__file__).parents[2]
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    scripts = [p for p in (root / "tools").iterdir() if p.is_file() and not p.suffix]
    missing = [p.name for p in scripts if "python3" in p.read_text().split("\n")[0] and f'"tools/{p.name}"' not in text]
    assert missing == []
