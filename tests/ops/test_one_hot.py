"""Indices as rows of two values, against ONNX Runtime: from the back, outside, along any axis."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.ops import one_hot
from tests.support.graphs import INT, graph, model
from tests.support.oracle import expected

INDICES = np.array([[0, 4, -1, 5], [-5, 2, -6, 1 << 62]])


@pytest.mark.opencl
@pytest.mark.parametrize("compared", [1 << 14, 0], ids=["compared", "replaced"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_every_place_is_compared_with_the_index_or_one_replaced(compared, axis, monkeypatch):
    monkeypatch.setattr(one_hot, "COMPARED", compared)
    node = helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=axis)
    values = np.float32([-0.0, np.nan])
    source = model(graph([node], [("i", INT, [2, 4])], [("y", 1, None)], depth=np.array(5), values=values))
    with clgraph.compile(source, threads=1) as compiled:
        (got,) = compiled.run({"i": INDICES}).values()
        kinds = {node.primitive.kind for node in compiled.program}
    assert ("scatter_elements" in kinds) == (not compared)
    np.testing.assert_array_equal(got.view(np.int32), expected(source, {"i": INDICES})["y"].view(np.int32))
