"""``--placement-budget``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

FIRST, SECOND = "pocl:0/1of2", "pocl:0/2of2"
pytestmark = [
    pytest.mark.opencl,
    pytest.mark.usefixtures("several_units"),
]


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """Four convolutions of 16 KiB of weights each, between which any of them can be cut."""
    weights = np.full((64, 64, 1, 1), 0.01, np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", [f"t{n}", f"w{n}"], [f"t{n + 1}"], f"conv{n}") for n in range(4)],
        "chain",
        [helper.make_tensor_value_info("t0", TensorProto.FLOAT, [1, 64, 10, 10])],
        [helper.make_tensor_value_info("t4", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights * (n + 1), f"w{n}") for n in range(4)],
    )
    path = tmp_path / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_command_line_shares_out_and_estimates(clgraph_command: Callable[..., Any], chain: Path) -> None:
    options = ("--device", f"{FIRST},{SECOND}", "--placement-budget", f"{FIRST}=100 KiB")
    status, out, _ = clgraph_command("explain", chain, *options)
    assert status == 0
    assert f"{FIRST} takes" in out
    assert "of 100.0 KiB" in out
    status, out, _ = clgraph_command("estimate", chain, *options)
    assert status == 0
    assert FIRST in out
    assert SECOND in out
    status, _, err = clgraph_command("run", chain, "--random-inputs", *options[:3], FIRST)
    assert status == 2
    assert "is not DEVICE=SIZE" in err
