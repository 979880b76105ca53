from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_that_the_shell_can_read(shell: str, clgraph_command: Command) -> None:
    status, out, err = clgraph_command("completion", shell)
    assert (status, err) == (0, "")
    assert "_CLGRAPH_COMPLETE" in out
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=out, text=True, check=True, capture_output=True)


def _completed(*words: str) -> list[str]:
    line = " ".join(("clgraph", *words))
    environment = {"_CLGRAPH_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        [sys.executable, "-m", "clgraph"],
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [word.partition(",")[2] for word in done.stdout.split()]


def test_commands_options_and_choices_are_completed() -> None:
    assert _completed("co") == ["compile", "compare", "completion"]
    assert "--streams" in _completed("bench", "m.onnx", "--str")
    assert _completed("run", "m.onnx", "--executor", "p") == ["persistent"]
    assert "prepare_primitive_fusing" in _completed("compile", "m.onnx", "--disable-pass", "prepare_pr")
