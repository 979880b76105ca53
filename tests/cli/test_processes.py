"""The command line as a user meets it: a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def _run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clgraph", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=_environment())


def _environment() -> dict[str, str]:
    import os

    root = Path(__file__).resolve().parents[2]
    return {**os.environ, "PYTHONPATH": str(root)}


def test_a_missing_model_is_one_line_and_status_1(tmp_path: Path) -> None:
    done = _run("run", "nothing.onnx", "--device", "host", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "error: there is no file nothing.onnx\n")


def test_piped_tables_are_plain_text(model: Path, tmp_path: Path) -> None:
    done = _run("compile", model, "--device", "host", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout


def test_a_closed_pipe_is_no_traceback(model: Path, tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m clgraph explain "{model}" --device host --json | head -1'
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=_environment())
    assert done.stderr == ""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_done_without(closed: str, model: Path, tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m clgraph explain "{model}" --device host {closed}'
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=_environment())
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is full")
def test_an_output_that_is_full_is_one_line_that_says_so(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m clgraph passes > /dev/full'
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=_environment())
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output cannot be written: No space left")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_while_the_command_line_is_imported_is_one_line(tmp_path: Path) -> None:
    interrupted = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "click.py").write_text(interrupted, encoding="utf-8")
    environment = _environment()
    environment["PYTHONPATH"] = f"{tmp_path}:{environment['PYTHONPATH']}"
    command = [sys.executable, "-m", "clgraph", "passes"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
