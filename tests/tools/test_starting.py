"""Every tool can be started, says what it does, and makes its first case; nothing here runs a whole one."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
NAMES = sorted(
    path.name
    for path in TOOLS.iterdir()
    if path.is_file() and path.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3")
)


def main_of(name: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Callable[[], int]:
    """Return the function that tool *name* runs, as its script gets these arguments."""
    path = str(TOOLS / name)
    monkeypatch.setattr(sys, "argv", [path, *arguments])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_loader(name, importlib.machinery.SourceFileLoader(name, path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    main: Callable[[], int] = module.main
    return main


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_says_what_it_does_and_does_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = main_of(name, monkeypatch, "--help")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name} [-h]")


@pytest.mark.parametrize("name", ["check_races", "mutate", "onnx_suite"])
def test_a_tool_refuses_a_text_that_no_name_has(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "nothing has this name"
    main = main_of(name, monkeypatch, *([text] if name == "check_races" else ["--only", text]))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


@pytest.fixture
def logged() -> Iterator[None]:
    """Undo what tools/check_families and tools/optimised_matrix do to logging."""
    yield
    logging.disable(logging.NOTSET)


HOST = ("--device", "host")


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize(
    ("tool", "printed"),
    [
        (("check_families", *HOST, "--source", "texts", "--count", "1", "--members", "1"), "all: 1 models, 1 members"),
        (("onnx_suite", *HOST, "--only", "test_abs"), "| pass | 1 |"),
        (("optimised_matrix", *HOST, "small_encoder"), "3 models as they are written, 0 of them wrong"),
        (("operator_types", "Relu"), "| `Relu` | 14 |"),
        (("fuzz", "--count", "1", "--of", "operators", "--level", "null"), "0 foreign, 0 crash, 0 hang"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "it",
)
def test_a_tool_makes_its_first_case(
    tool: tuple[str, ...], printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    for variable in ("ONNX_MODELS", "CLGRAPH_STRICT"):  # tools/onnx_suite sets them
        monkeypatch.setenv(variable, "0")
    assert main_of(tool[0], monkeypatch, *tool[1:])() == 0
    assert printed in capsys.readouterr().out


def test_mutate_counts_what_no_test_notices_in_a_sample(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main = main_of("mutate", monkeypatch, "--sample", "5")
    outcomes = iter(["passes", *[None] * 4])
    monkeypatch.setitem(main.__globals__, "tried", lambda mutation, copy: next(outcomes))
    monkeypatch.setitem(main.__globals__, "working_copy", lambda folder: folder)
    assert main() == 1
    out = capsys.readouterr().out
    assert out.count("| passes |") == 1
    assert "5 changes, 1 of them not noticed" in out
