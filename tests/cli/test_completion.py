from __future__ import annotations

import shutil
import subprocess
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


def test_commands_options_and_choices_are_completed(clgraph_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(*words: str) -> list[str]:
        line = " ".join(("clgraph", *words))
        for name, value in (("_CLGRAPH_COMPLETE", "bash_complete"), ("COMP_WORDS", line), ("COMP_CWORD", len(words))):
            monkeypatch.setenv(name, str(value))
        status, out, err = clgraph_command()
        assert (status, err) == (0, "")
        return [word.partition(",")[2] for word in out.split()]

    assert completed("co") == ["compile", "compare", "completion"]
    assert "--streams" in completed("bench", "m.onnx", "--str")
    assert completed("run", "m.onnx", "--executor", "p") == ["persistent"]
    assert "prepare_primitive_fusing" in completed("compile", "m.onnx", "--disable-pass", "prepare_pr")
