"""tools/try_clients without its clients: what becomes of one that cannot be had, fails, hangs or differs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.interruptible import INTERRUPTED
from tests.tools.test_starting import main_of


@pytest.fixture
def trying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Callable[[], int]]:
    """Return what makes the tool's main function, of two clients, in an environment that is there."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()

    def made(**patched: Any) -> Callable[[], int]:
        main = main_of("try_clients", monkeypatch, "faces", "words", "--environment", str(tmp_path))
        for name, value in {"install": lambda *_: None, **patched}.items():
            monkeypatch.setitem(main.__globals__, name, value)
        return main

    return made


Trying = Callable[..., Callable[[], int]]


def test_a_client_whose_packages_cannot_be_had_is_one_that_fails(
    trying: Trying, capsys: pytest.CaptureFixture[str]
) -> None:
    left = [subprocess.CalledProcessError(1, ["pip"]), None]

    def install(*_: object) -> None:
        if (error := left.pop(0)) is not None:
            raise error

    assert trying(install=install, run=lambda *_: ("a face 0.5\n", 1.0, 0))() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("faces: NOT TRIED: ")
    assert lines[1] == "words: the same; 1.0 s, with clgraph 1.0 s"
    assert lines[-1] == "2 clients, 1 of them not the same"


@pytest.mark.parametrize(
    ("found", "status", "same"),
    [("0.5001 x", 0, True), ("0.51 x", 0, False), ("0.5 y", 0, False), ("0.5 x", 1, False)],
)
def test_a_client_is_the_same_where_it_ends_well_and_prints_the_same(
    found: str, status: int, same: bool, trying: Trying, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], *_: object) -> tuple[str, float, int]:
        return (found, 1.0, status) if "clgraph.as_onnxruntime" in command else ("0.5 x", 1.0, 0)

    assert trying(run=run)() == (not same)
    assert capsys.readouterr().out.endswith(f"2 clients, {0 if same else 2} of them not the same\n")


@pytest.mark.parametrize("status", [0, 1])
def test_a_client_that_fails_with_onnx_runtime_says_nothing_about_clgraph(
    status: int, trying: Trying, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], *_: object) -> tuple[str, float, int]:
        return "0.5 x", 1.0, status if "clgraph.as_onnxruntime" in command else 1

    assert trying(run=run)() == 1
    assert capsys.readouterr().out.startswith("faces: FAILS WITH ONNX RUNTIME; ")


def test_a_client_that_hangs_is_ended(trying: Trying, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = trying()
    monkeypatch.setitem(main.__globals__, "SECONDS", 0.2)
    text, seconds, status = main.__globals__["run"]([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, {})
    assert (text, status) == ("no end in 0.2 s", 124)
    assert seconds < 50


def test_when_it_is_interrupted_it_says_how_many_it_has_tried(
    trying: Trying, capsys: pytest.CaptureFixture[str]
) -> None:
    left = [("1.0", 1.0, 0), ("1.0", 1.0, 0)]

    def run(*_: object) -> tuple[str, float, int]:
        if not left:
            raise KeyboardInterrupt
        return left.pop()

    assert trying(run=run)() == INTERRUPTED
    assert capsys.readouterr().out.endswith("\n1 clients, 0 of them not the same\n")


def test_of_a_long_output_its_begin_and_its_end_are_shown(trying: Trying, capsys: pytest.CaptureFixture[str]) -> None:
    traceback = "\n".join(["a warning", *["  at"] * 98, "TypeError: x"])
    assert trying(run=lambda *_: (traceback, 1.0, 0))() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:41].count("    at") == 38
    assert (lines[1], lines[21], lines[41]) == ("  a warning", "  ... 60 more lines", "  TypeError: x")
