"""Each element once, against ONNX Runtime, with as many of the results as are read."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from tests.support.graphs import FLOAT, INT, graph, model
from tests.support.oracle import expected

NAMES = ["found", "first", "which", "count"]


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 1])
def test_any_number_of_results_are_onnxruntimes(axis, ordered, rng):
    x = rng.integers(0, 3, (2, 9)).astype(np.float32)
    more = {} if axis is None else {"axis": axis}
    for wanted in range(1, 5):
        node = helper.make_node("Unique", ["x"], NAMES[:wanted], sorted=ordered, **more)
        outputs = [(name, FLOAT if name == "found" else INT, None) for name in NAMES[:wanted]]
        source = model(graph([node], [("x", FLOAT, x.shape)], outputs))
        got = clgraph.compile(source, device="host").run({"x": x})
        for name, want in expected(source, {"x": x}).items():
            np.testing.assert_array_equal(got[name], want, name)
