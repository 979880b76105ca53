"""Operators whose results' sizes or values go by each element: ways, hashes, ranges and unique elements."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from tests.support.onnx_case import one_node, onnxruntime_outputs

F = np.float32
MICROSOFT = {"opset": 17, "domain": "com.microsoft"}


def same(op_type, inputs, **more):
    model, feeds = one_node(op_type, inputs, **MICROSOFT, **more)
    got = clgraph.compile(model, device="host").run(feeds)
    for mine, theirs in zip(got.values(), onnxruntime_outputs(model, feeds), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


def test_the_cheapest_way_is_onnxruntimes(rng):
    for shape in ((1, 1), (1, 5), (4, 1), (1, 7, 4), (6, 9), (9, 6)):
        same("DynamicTimeWarping", [rng.standard_normal(shape).astype(F)])
        same("DynamicTimeWarping", [rng.integers(0, 2, shape).astype(F)])


def test_hashes_are_onnxruntimes():
    for x in ([3, -4], [1.5, -0.0]):
        for dtype in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64):
            same("MurmurHash3", [np.array(x).astype(np.int64 if isinstance(x[0], int) else F).astype(dtype)])
    few = np.array([["", "a", "ab", "bc"], ["abc", "abcd", "grüße, 世界", "efgh"]], object)
    many = np.tile(few, (9, 1))
    long = many.copy()
    long[3, 1], long[7, 2] = "e" * 999, "abcd" * 100
    model, feeds = one_node("MurmurHash3", [np.zeros((2, 4), F)], **MICROSOFT, seed=7, positive=0)
    model.graph.input[0].type.tensor_type.elem_type = 8
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.Clear()
    model.graph.output[0].type.tensor_type.elem_type = 6
    compiled = clgraph.compile(model, device="host")
    for texts in (few, many, long, few[:1, :1], few[:0]):
        got = compiled.run({"x0": texts})["y0"]
        np.testing.assert_array_equal(got, onnxruntime_outputs(model, {"x0": texts})[0])
    assert feeds


def test_ranges_without_a_step_and_unique_elements_in_order_are_onnxruntimes():
    same("Range", [np.array(2, np.int32), np.array(6, np.int32)])
    same("Range", [np.array(1, F), np.array(5, F), np.array(0.75, F)])
    same("Unique", [np.array([3, 1, 3, 2, 1], F)], outputs=3)


def test_what_is_no_matrix_of_costs_is_refused():
    model, feeds = one_node("DynamicTimeWarping", [np.zeros((2, 3, 4), F)], **MICROSOFT)
    with pytest.raises(clgraph.errors.ClgraphError, match=r"\[2, 3, 4\] is not a matrix of costs"):
        clgraph.compile(model, device="host").run(feeds)
