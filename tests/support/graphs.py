"""Small ONNX graphs with bodies, and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import clgraph
from tests.support.oracle import expected

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

Tensor = tuple[str, int, Sequence[int | str | None] | None]


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Tensor], outputs: Sequence[Tensor], **constants: Any
) -> onnx.GraphProto:
    """Return a graph, or the body of a node, with *constants* by name."""
    return helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*x) for x in inputs],
        [helper.make_tensor_value_info(*x) for x in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )


def model(whole: onnx.GraphProto, opset: int = 17) -> onnx.ModelProto:
    """Return the model of a graph."""
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def agrees(made: clgraph.Model, source: onnx.ModelProto, feeds: Mapping[str, Any], atol: float = 1e-5) -> None:
    """Assert that *made* gives what ONNX Runtime gives."""
    arrays = {name: np.asarray(value) for name, value in feeds.items()}
    got, want = made.run(arrays), expected(source, arrays)
    assert list(got) == list(want)
    for name, there in want.items():
        assert got[name].shape == there.shape, name
        assert got[name].dtype == there.dtype, name
        np.testing.assert_allclose(got[name], there, atol=atol, err_msg=name)
