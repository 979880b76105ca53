"""A terminal of 80 columns: no command prints a longer line, or breaks a word."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import click
import onnx
import pytest

from clgraph.cli import cli
from clgraph.errors import OptionError
from tests.support.models import small_model

WIDTH = 80


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _printed(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """Return the lines that a command prints on a terminal."""
    screen = _Terminal()
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", screen)
    cli.main([*arguments], standalone_mode=False)
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in screen.getvalue().splitlines()]


@pytest.mark.opencl
@pytest.mark.parametrize(
    "command",
    [
        "devices",
        "devices -v",
        "check small.onnx",
        "compile small.onnx",
        "compile small.onnx --report memory",
        "run small.onnx --random-inputs",
        "explain small.onnx",
        "explain small.onnx first",
        "profile small.onnx",
        "compare small.onnx",
        "passes",
        "passes --check convolution",
        "cache show",
        "bench small.onnx --time .01",
    ],
)
def test_no_line_of_a_command_is_longer_than_the_terminal(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(small_model(), "small.onnx")
    lines = _printed(monkeypatch, *command.split())
    assert lines
    # A word that is longer than the terminal cannot be helped: a folder's name, say.
    assert [line for line in lines if len(line.rstrip()) > WIDTH and len(line.split()) > 1] == []


def test_no_line_of_a_help_is_longer_than_the_terminal() -> None:
    helps = _helps(cli, click.Context(cli, info_name="clgraph", max_content_width=WIDTH))
    assert len(helps) > 20
    assert [(name, line) for name, text in helps.items() for line in text.splitlines() if len(line) > WIDTH] == []


def _helps(command: click.Command, context: click.Context) -> dict[str, str]:
    """Return the help of *command* and of its own commands, by their names."""
    found = {context.command_path: command.get_help(context)}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found |= _helps(below, click.Context(below, parent=context, info_name=name, max_content_width=WIDTH))
    return found


@pytest.mark.opencl
def test_a_profile_without_subgraphs_has_no_empty_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [node("Relu", ["x"], ["r"]), node("NonZero", ["r"], ["y"], "places")]
    x, y = value("x", onnx.TensorProto.FLOAT, [2, 3]), value("y", onnx.TensorProto.INT64, None)
    graph = onnx.helper.make_graph(nodes, "g", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "staged.onnx")
    lines = _printed(monkeypatch, "profile", str(tmp_path / "staged.onnx"))
    assert any(line.startswith("places") for line in lines)
    assert [line for line in lines if line.startswith(("input or output", "subgraph"))] == []


def test_the_demo_asks_for_the_other_runtime_before_it_fetches_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("clgraph.cli.demo_command.fetch_model", lambda *_: pytest.fail("fetches"))
    with pytest.raises(OptionError, match="pip install onnxruntime"):
        cli.main(["demo", "ocr", "--compare", "onnxruntime"], standalone_mode=False)
