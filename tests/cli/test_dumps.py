"""A dump with data in place of MODEL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.opencl


@pytest.fixture
def dump(clgraph_command: Command, model: Path, tmp_path: Path) -> Path:
    status, _, err = clgraph_command(
        "compile", model, "--device", "pocl", "--dump-graphs", tmp_path / "dumps", "--dump-data"
    )
    assert status == 0, err
    return next((tmp_path / "dumps").glob("*_prepare_primitive_fusing.json"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--random-inputs"), "y"),
        (("explain",), "convolution"),
        (("check",), "can run "),
        (("bench", "--iterations", 2), "latency"),
        (("profile",), "convolution"),
        (("compare",), "device and the references agree"),
    ],
)
def test_commands_take_a_dump(arguments, said: str, clgraph_command: Command, dump: Path) -> None:
    name, *options = arguments
    status, out, err = clgraph_command(name, dump, *options)
    assert status == 0, err
    assert said in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("compare", "--bisect"), "is a dump: --bisect and --against want the model"),
        (("compare", "--against", "onnxruntime"), "is a dump: --bisect and --against want the model"),
        (("bench", "--compare", "onnxruntime"), "onnxruntime does not read"),
        (("tune",), "is not an ONNX model but JSON, which is a model only where --dump-data"),
        (("check", "--shape", "x=1,3,9,9"), "input 'x' has shape [1, 3, 10, 10]"),
    ],
)
def test_what_a_dump_cannot_do_is_said(arguments, reason: str, clgraph_command: Command, dump: Path) -> None:
    name, *options = arguments
    status, _, err = clgraph_command(name, dump, *options)
    assert status == 1
    assert reason in err
    assert "Traceback" not in err
