from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest

from clgraph.cli import main
from tests.support.models import small_model


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def clgraph_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Outcome]:
    """Run the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["clgraph", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return Outcome(int(stopped.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(small_model(), path)
    return path


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    """A model whose input has named dimensions."""
    path = tmp_path / "open.onnx"
    onnx.save(small_model(size="n"), path)
    return path
