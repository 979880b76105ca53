"""Sums and products between DequantizeLinear and QuantizeLinear: the bytes of ONNX Runtime's fused operators."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import clgraph
from tests.support.onnx_case import onnxruntime_outputs

_SHAPE = (4, 1 << 12)


@pytest.mark.opencl
@pytest.mark.parametrize("function", ["Add", "Mul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_their_bytes_are_those_of_onnxruntime(function: str, dtype: type, rng) -> None:
    """Halves become even integers, where QuantizeLinear makes even numbers of steps from an odd zero point."""
    limits, kind = np.iinfo(dtype), helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    scales = {"a": 0.5, "b": 0.5, "y": 1.0 if function == "Add" else 4.0}
    zeros = {"a": limits.min + 133, "b": limits.min + 111, "y": limits.min + 131}
    constants = [
        numpy_helper.from_array(np.array(v, t), f"{n}_{what}")
        for what, numbers, t in (("scale", scales, np.float32), ("zero", zeros, dtype))
        for n, v in numbers.items()
    ]
    nodes = [helper.make_node("DequantizeLinear", [n, f"{n}_scale", f"{n}_zero"], [f"{n}_floats"]) for n in "ab"]
    nodes += [
        helper.make_node(function, ["a_floats", "b_floats"], ["made"]),
        helper.make_node("QuantizeLinear", ["made", "y_scale", "y_zero"], ["y"]),
    ]
    a, b, y = (helper.make_tensor_value_info(n, kind, _SHAPE) for n in "aby")
    graph = helper.make_graph(nodes, "between", [a, b], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {n: rng.integers(limits.min, limits.max + 1, _SHAPE).astype(dtype) for n in "ab"}
    (want,) = onnxruntime_outputs(model, feeds, optimised=True, int8=True)
    np.testing.assert_array_equal(clgraph.compile(model).run(feeds)["y"], want)
    (plain,) = onnxruntime_outputs(model, feeds)
    assert (plain != want).any()
