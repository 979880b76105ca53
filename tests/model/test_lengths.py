"""The arithmetic of lengths: what it computes, and how it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import InternalError, ShapeError
from clgraph.graph.interpret import interpret
from clgraph.graph.topology import Topology
from clgraph.model.state.lengths import Lengths
from clgraph.ops.concat import Concat
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand, Repeat
from clgraph.ops.fill import Fill
from clgraph.ops.gather import Gather
from clgraph.ops.gather_nd import GatherND
from clgraph.ops.power import Power
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Flatten, Reshape, Squeeze, Unsqueeze
from clgraph.ops.scatter_nd import ScatterND
from clgraph.ops.sequence import Sequential
from clgraph.ops.shape import ShapeOf
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose
from clgraph.ops.triangle import Triangle
from clgraph.ops.where import Where


def test_a_layer_that_cannot_be_computed_is_named(monkeypatch):
    t = Topology()
    t.output("y", t.add("total", Eltwise("add"), t.input("past", ("n",)), t.input("new", ("m",))))
    lengths = Lengths(t)
    feeds = {"past": np.ones(2, np.float32), "new": np.full(2, 3, np.float32)}
    assert lengths.values(feeds)["y"].tolist() == [4, 4]
    with pytest.raises(ShapeError, match=r"^node 'total' .*does not fit"):
        lengths.values({**feeds, "new": np.ones(3, np.float32)})

    def broken(*inputs):
        raise RuntimeError("nothing to do with shapes")

    monkeypatch.setattr(Reduce, "reference", broken)
    t.output("sum", t.add("sum", Reduce("sum", (0,)), "total"))
    with pytest.raises(InternalError, match=r"the arithmetic of lengths failed at node 'sum'.*nothing to do with"):
        Lengths(t).values(feeds)


def test_what_no_layer_makes_is_what_is_fed_or_a_constant():
    t = Topology()
    t.output("lengths", t.input("fed", ("batch",), np.int32))
    t.output("total", t.constant("many", np.array([40])))
    fed = np.array([3, 4], np.int32)
    made = Lengths(t).values({"fed": fed})
    assert made["lengths"] is fed
    assert made["total"].tolist() == [40]


@pytest.fixture
def masked():
    """The sums of a mask, over tokens whose elements nobody reads, and the number of tokens that there are then."""
    t = Topology()
    ids, mask = t.input("ids", ("batch", "new"), np.int64), t.input("mask", ("batch", "all"), np.int64)
    count = t.add("count", Gather(0), t.add("shape", ShapeOf(), ids), t.constant("one", np.array(1)))
    t.output("sum", t.add("sum", Reduce("l1", (1,)), mask))
    t.output("total", t.add("total", Eltwise("add"), count, t.constant("many", np.array(40))))
    return Lengths(t)


def test_lengths_and_masks_that_are_others_make_others(masked):
    mask = np.ones((1, 5), np.int64)
    for ids, sum_, total in ((1, 5, 41), (2, 5, 42), (2, 4, 42), (1, 4, 41), (1, 5, 41)):
        mask[0, 2] = sum_ - 4  # In place, as callers do.
        made = masked.values({"ids": np.zeros((1, ids), np.int64), "mask": mask})
        assert (made["sum"].ravel().tolist(), made["total"].tolist()) == ([sum_], total)
        with pytest.raises(ValueError, match="read-only"):
            made["sum"][...] = 0


def test_only_what_follows_from_something_else_is_computed_again(masked, monkeypatch):
    reduced, real = [], Reduce.reference

    def reference(self, x):
        reduced.append(x.shape)
        return real(self, x)

    monkeypatch.setattr(Reduce, "reference", reference)
    for ids, mask in ((1, 5), (2, 5), (2, 6), (1, 5), (2, 6)):
        masked.values({"ids": np.zeros((1, ids), np.int64), "mask": np.ones((1, mask), np.int64)})
    assert reduced == [(1, 5), (1, 6)]


def test_what_is_kept_is_bounded(masked, monkeypatch):
    monkeypatch.setattr("clgraph.model.state.lengths._KEPT_BYTES", 4000)
    for tokens in range(1, 40):
        masked.values({"ids": np.zeros((1, 1), np.int64), "mask": np.ones((1, tokens), np.int64)})
    assert 1 <= len(masked._known) <= 4


X = np.arange(24).reshape(1, 4, 6)
LIKE_THE_REFERENCE = [
    (Unsqueeze(reads=("axes",)), [X, {"axes": [0, -1]}]),
    (Unsqueeze(axes=(1,)), [np.array(5).reshape(())[None]]),
    (Squeeze(reads=("axes",)), [X, {"axes": [0]}]),
    (Flatten(2), [X]),
    (Reshape(reads=("shape",)), [X, np.array([0, -1, 2])]),
    (Reshape(reads=("shape",)), [X[:, :0], np.array([4, -1])]),
    (Reshape(reads=("shape",), zero_is_zero=True), [X[:, :0], np.array([6, 0])]),
    (Gather(1), [X, {"place": -1}]),
    (Gather(2), [X, {"place": [2]}]),
    (Gather(), [X.ravel(), {"place": 99}]),
    (Gather(), [X.ravel(), {"place": -99}]),
    (Gather(), [X.ravel(), {"place": [3, -1]}]),
    (Sequential(), [np.array(3), np.array(-4), np.array(-2)]),
    (Sequential(), [np.array(3.5, np.float32), np.array(5, np.float32), np.array(0.25, np.float32)]),
    (Slice(reads=("starts", "ends", "axes")), [X, np.array([-3]), np.array([1 << 62]), {"axes": [-1]}]),
    (
        Slice(reads=("starts", "ends", "axes", "steps")),
        [X, np.array([1, -99]), np.array([4, -1]), {"axes": [2, 1]}, {"steps": [2, 1]}],
    ),
    (
        Slice(reads=("starts", "ends", "axes", "steps")),
        [X, np.array([-1]), np.array([-99]), {"axes": [1]}, {"steps": [-1]}],
    ),
    (Slice(reads=("starts", "ends")), [X, np.array([0, 3]), np.array([1, 2])]),
    (Expand(reads=("shape",)), [X[:, :1], np.array([2, 1, 5, 1])]),
    (Expand(reads=("shape",)), [X, np.array([6])]),
    (Fill(7, DType.F32), [np.array([2, 0, 3])]),
    (Repeat(reads=("repeats",)), [X, np.array([2, 1, 3])]),
    (Reshape((0, -1, 2)), [X]),
    (Transpose((2, 0, 1)), [X]),
    (ShapeOf(1, -1), [X]),
    (Concat(-2), [X, X[:, :2]]),
    (Reorder(DType.I64), [X]),
    (Reorder(DType.BOOL), [X - 3]),
    (Reorder(DType.I64), [np.float32([-1.5, 2.5, np.nan])]),
    (Where(), [X > 3, X, X[:, :1]]),
    (Eltwise("add"), [X, X[0, :, :1]]),
    (Eltwise("sub"), [np.array(5), np.array(7)]),
    (Eltwise("div"), [X - 9, np.array([4])]),
    (Eltwise("pow"), [X, np.float32([2])]),
    (Eltwise("less"), [X, np.array(9)]),
    (Eltwise("and"), [X > 3, X < 9]),
    (Triangle(reads=("k",)), [X, np.array(-1)]),
    (Triangle(upper=False), [X]),
    (CumulativeSum(exclusive=True), [X, {"axis": 1}]),
    (Reduce("sum", (-1,)), [X]),
    (Reduce("sum", keepdims=False, reads=("axes",)), [X, {"axes": [1, -1]}]),
    (Reduce("sum", reads=("axes",)), [X.astype(np.int32) << 27, {"axes": [1]}]),
    (Reduce("sum", (0,)), [X > 3]),
    (Reduce("sum", (0, 1, 2), keepdims=False), [X]),
    (Reduce("sum"), [X]),
    (GatherND(), [X[0], np.array([[[1, 2], [-1, 3]]])]),
    (GatherND(), [X, np.array([[0], [-1]], np.int32)]),
    (GatherND(), [X, np.array([[0, 99], [-99, 1]])]),
    (GatherND(1), [X, np.zeros((len(X), 1), np.int64)]),
    (Expand(reads=("shape",)), [X, np.array([1, *X.shape])]),
    (Expand(reads=("shape",)), [X, np.array([1, 1])]),
    (ScatterND(), [X, np.array([[0, 1], [0, -1]]), -X[0, :2]]),
    (ScatterND("add"), [X, np.array([[0, 1], [0, 1]]), X[0, :2]]),
]


@pytest.mark.parametrize(
    ("primitive", "arguments"),
    [
        (Eltwise("add"), [X, X[:, :3]]),
        (Where(), [X > 3, X, X[:, :3]]),
        (Concat(0), [X, X[:, :2]]),
        (Reshape(reads=("shape",)), [X, np.array([5, -1])]),
        (Expand(reads=("shape",)), [X, np.array([5])]),
    ],
    ids=lambda x: str(getattr(x, "kind", "")),
)
@pytest.mark.parametrize("elements", [True, False], ids=["elements", "shapes"])
def test_what_does_not_fit_is_refused_by_its_layer(primitive, arguments, elements):
    t = Topology()
    feeds = {t.input(f"in{i}", None, a.dtype): a for i, a in enumerate(arguments)}
    y = t.add("y", primitive, *feeds)
    t.output("y", y if elements else t.add("shape", ShapeOf(), y))
    with pytest.raises(ShapeError, match=r"^node 'y'"):
        Lengths(t).values(feeds)


@pytest.mark.parametrize(("primitive", "arguments"), LIKE_THE_REFERENCE, ids=lambda x: str(getattr(x, "kind", "")))
@pytest.mark.parametrize("elements", [True, False], ids=["elements", "shapes"])
def test_layers_that_are_not_bound_compute_what_their_references_do(primitive, arguments, elements):
    t, feeds = Topology(), dict[str, np.ndarray]()
    for i, argument in enumerate(arguments):
        if isinstance(argument, dict):
            t.constant(f"in{i}", np.array(*argument.values()))
        else:
            feeds[t.input(f"in{i}", None, argument.dtype)] = argument
    y = t.add("y", primitive, *(f"in{i}" for i in range(len(arguments))))
    t.output("y", y if elements else t.add("shape", ShapeOf(), y))
    wanted = interpret(t, feeds)["y"]
    made = Lengths(t).values(feeds)["y"]
    np.testing.assert_array_equal(made, wanted)
    assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)


def test_elements_behind_an_operator_that_is_composed_of_others_are_not_read_for_a_shape():
    t = Topology()
    ids = t.input("ids", ("batch", "new"), np.int64)
    rows = t.add("rows", Gather(0), t.constant("table", np.ones((50, 4), np.float32)), ids)
    squares = t.add("squares", Power(), rows, t.constant("two", np.array(2, np.float32)))
    t.output("shape", t.add("shape", ShapeOf(), t.add("sum", Reduce("sum", (2,)), squares)))
    lengths = Lengths(t)
    first = lengths.values({"ids": np.array([[3, 4]])})
    assert first["shape"].tolist() == [1, 2, 1]
    assert lengths.values({"ids": np.array([[5, 40]])}) is first
