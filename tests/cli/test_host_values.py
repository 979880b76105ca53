"""Commands on models whose inputs and outputs are no tensors of numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def joined(tmp_path: Path) -> Path:
    """The file of a model that puts strings together, and holds a sequence of them."""
    graph = helper.make_graph(
        [helper.make_node("StringConcat", ["x", "x"], ["y"]), helper.make_node("SequenceConstruct", ["y", "x"], ["s"])],
        "joined",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [2])],
        [
            helper.make_tensor_value_info("y", TensorProto.STRING, [2]),
            helper.make_tensor_sequence_value_info("s", TensorProto.STRING, None),
        ],
    )
    path = tmp_path / "joined.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def test_run_reads_and_writes_strings_and_shows_sequences(
    clgraph_command: Command, joined: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.array(["a", "é"]))
    run = ("run", joined, "--device", "host", "--input", tmp_path / "x.npy", "--output")
    status, out, _ = clgraph_command(*run, f"y={tmp_path / 'y.npy'}")
    assert status == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["y", "strings", "2", "'aa',", "'éé'"] in rows
    assert ["s", "sequence", "2"] in [row[:3] for row in rows]
    assert np.load(tmp_path / "y.npy").tolist() == ["aa", "éé"]
    status, _, err = clgraph_command(*run, f"s={tmp_path / 's.npy'}")
    assert status == 1
    assert "output 's' is a sequence, which no file of arrays holds: run the model in Python" in err


def test_no_random_strings_are_made(clgraph_command: Command, joined: Path) -> None:
    status, _, err = clgraph_command("run", joined, "--device", "host", "--random-inputs")
    assert status == 1
    assert "input x tensor(string) [2] cannot be filled with random values" in err


@pytest.mark.opencl
def test_check_tells_what_is_on_the_host_and_why(clgraph_command: Command, joined: Path, device: str) -> None:
    status, out, _ = clgraph_command("check", joined, "--device", device)
    assert status == 0
    assert "devices hold tensors of numbers, no strings, sequences, optionals or maps" in out
