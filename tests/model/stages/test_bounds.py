"""A few bytes of model do not take all memory: what loops and sequences gather is bounded, known or not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.errors import DeviceMemoryError
from tests.support.graphs import BOOL, FLOAT, INT, graph, model

node = helper.make_node
MOST = 1 << 20


@pytest.fixture(autouse=True)
def small_bound(monkeypatch) -> None:
    monkeypatch.setattr("clgraph.graph.gathered.MOST_EVALUATED_BYTES", MOST)


def _body(*scanned):
    """A body that doubles what it carries, for ever."""
    nodes = [node("Add", ["v", "v"], ["o"]), node("Identity", ["going"], ["still"]), *scanned]
    results = [("still", BOOL, None), ("o", FLOAT, None), *([("s", FLOAT, None)] if scanned else [])]
    return graph(nodes, [("i", INT, []), ("going", BOOL, []), ("v", FLOAT, None)], results)


def _loop(body, *, inputs):
    outputs = [("z", FLOAT, None)]
    weights = {} if inputs else {"x": np.ones((8, 8), np.float32)}
    loop = node("Loop", ["trips", "", "x"], ["y", "z"], "forever", body=body)
    return model(graph([loop], inputs, outputs, trips=np.int64(1 << 40), **weights))


@pytest.mark.opencl
@pytest.mark.parametrize("known", [False, True], ids=["run", "binding"])
@pytest.mark.parametrize("scanned", [node("Mul", ["o", "o"], ["s"]), node("Slice", ["o", "none", "none"], ["s"])])
def test_scanned_results_of_a_loop_without_end_are_bounded(scanned, known, device) -> None:
    constant = node("Constant", [], ["none"], value=helper.make_tensor("none", INT, [2], [0, 0]))
    source = _loop(_body(constant, scanned), inputs=[] if known else [("x", FLOAT, [8, 8])])
    with pytest.raises(DeviceMemoryError, match=rf"forever.*scanned results take more than {MOST} bytes"):
        clgraph.compile(source, device=device).run({} if known else {"x": np.ones((8, 8), np.float32)})


@pytest.mark.opencl
def test_a_sequence_that_a_loop_fills_without_end_is_bounded(device) -> None:
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    body = graph([node("SequenceInsert", ["q", "x"], ["p"]), node("Identity", ["going"], ["still"])], [], [])
    body.input.extend(
        [
            helper.make_tensor_value_info("i", INT, []),
            helper.make_tensor_value_info("going", BOOL, []),
            helper.make_value_info("q", sequence),
        ]
    )
    body.output.extend([helper.make_tensor_value_info("still", BOOL, None), helper.make_value_info("p", sequence)])
    nodes = [
        node("SequenceEmpty", [], ["e"], "empty"),
        node("Loop", ["trips", "", "e"], ["f"], "forever", body=body),
        node("ConcatFromSequence", ["f"], ["y"], axis=0),
    ]
    source = model(graph(nodes, [("x", FLOAT, [8, 8])], [("y", FLOAT, None)], trips=np.int64(1 << 40)))
    with pytest.raises(DeviceMemoryError, match=rf"forever.*tensors of the sequence take more than {MOST} bytes"):
        clgraph.compile(source, device=device).run({"x": np.ones((8, 8), np.float32)})


@pytest.mark.opencl
def test_scanned_results_of_a_scan_are_bounded(device) -> None:
    body = graph([node("Expand", ["v", "shape"], ["s"])], [("v", FLOAT, [8])], [("s", FLOAT, None)])
    scan = node("Scan", ["x"], ["y"], "wide", body=body, num_scan_inputs=1)
    shape = np.array([512, 8])
    source = model(graph([scan], [("x", FLOAT, ["n", 8])], [("y", FLOAT, None)], shape=shape))
    with pytest.raises(DeviceMemoryError, match=rf"wide.*scanned results take more than {MOST} bytes"):
        clgraph.compile(source, device=device).run({"x": np.ones((100, 8), np.float32)})


@pytest.mark.opencl
def test_what_stays_below_the_bound_is_gathered(device) -> None:
    body = graph([node("Add", ["v", "v"], ["s"])], [("v", FLOAT, [8])], [("s", FLOAT, None)])
    scan = node("Scan", ["x"], ["y"], "wide", body=body, num_scan_inputs=1)
    source = model(graph([scan], [("x", FLOAT, [100, 8])], [("y", FLOAT, None)]))
    got = clgraph.compile(source, device=device).run({"x": np.ones((100, 8), np.float32)})["y"]
    np.testing.assert_array_equal(got, np.full((100, 8), 2, np.float32))
