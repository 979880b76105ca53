"""Spellings of references: bit for bit what these make."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.primitive import REFERENCE_SECONDS, Primitive
from clgraph.graph.topology import Topology
from clgraph.model.stages.host_plan import HostPlan
from clgraph.model.stages.spellings import spelled
from clgraph.ops.activation import FUNCTIONS as ACTIVATIONS
from clgraph.ops.activation import Activation
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.concat import Concat
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.eltwise import ARITHMETIC, COMPARISONS, Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.gather_elements import GatherElements
from clgraph.ops.gather_nd import GatherND
from clgraph.ops.is_special import IsSpecial
from clgraph.ops.matmul import MatMul
from clgraph.ops.reduce import FUNCTIONS as REDUCTIONS
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.scatter_nd import ScatterND
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.top_k import TopK
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
X[0, 1], X[2, 3] = np.nan, np.inf
WHOLE = np.array([[1, -7, 300], [5, 0, 2**31 - 1]], np.int32)
AT = np.array([0, -1, 2, -3])
PLACES = np.array([[0, -1], [2, 3]])
OUTSIDE = np.array([7, -9, 1])

FINE = np.random.default_rng(1).normal(size=(9, 9)).astype(np.float32)
EQUAL, NANS = np.array([1, 3, 1, 3, 3, 1], np.uint8), np.array([np.nan, -0.0, 0.0, 1, np.nan, -np.inf], np.float32)
LINES = np.stack([NANS[:5], NANS[1:], NANS[5:].repeat(5), X[0, [0, 1, 2, 3, 3]]])
TIES = np.random.default_rng(2).integers(0, 3, (2, 3, 5))

CASES: list[tuple[Primitive, tuple[np.ndarray, ...]]] = [
    *((Eltwise(f), (X, X.T.copy().reshape(3, 4))) for f in ("add", "sub", "mul", "div", "min", "max", "prelu", "fmod")),
    *((Eltwise(f), (WHOLE, np.array(3, np.int32))) for f in ("add", "div", "mod", "min", "and", "shift_left")),
    *((Eltwise(f), (X, np.array(0.5, np.float32))) for f in COMPARISONS),
    (Eltwise("and"), (X > 0, X < 1)),
    *((Eltwise(f), pair) for f in ("sub", "less") for pair in ((X, X[0]), (X[:1], X[1]), (X[1], X[:1]))),
    *((Eltwise("sub"), pair) for pair in ((X, X[0, :1]), (X[0, :1], X), (X[0, :1], X[:1, :1]), (X[0, :1], X[0, 0:1]))),
    *((Eltwise("sub"), pair) for pair in ((X[:1], X[0, :1]), (X[0, 0], X[0, :1]), (X[:, :1], X[0]))),
    *((Activation(f, 0.5, 0.25), (X,)) for f in ACTIVATIONS if f != "not"),
    (Activation("clip", 0, 5), (WHOLE,)),
    *((Reduce(f, axes, k), (X,)) for f in REDUCTIONS for axes, k in (((1,), True), ((0, 1), False), ((), True))),
    *((Reduce(f, (0,), keepdims=False), (WHOLE,)) for f in ("sum", "max", "min", "prod", "mean")),
    (Reduce("sum", (0,)), (X.astype(np.float16),)),
    *((Softmax(axes, log), (a,)) for axes in ((1,), (0, 1)) for log in (False, True) for a in (X, FINE, X.astype("d"))),
    (Reshape((2, 6)), (X,)),
    *((Reorder(d), (X[:2, 2:],)) for d in (DType.F64, DType.I32, DType.BOOL, DType.F16, DType.BF16)),
    (IsSpecial(nan=True), (X,)),
    (IsSpecial(negative=True, positive=True), (X,)),
    *((ArgExtremum(least, 1, k), (a,)) for least in (False, True) for k in (False, True) for a in (X, WHOLE, X > 0)),
    (ArgExtremum(False, 0, False), (AT,)),
    *((TopK(0, largest, k=k), (a,)) for largest in (False, True) for k in (0, 2, 4) for a in (AT, X[2], EQUAL, NANS)),
    (TopK(1, True, k=2), (X,)),
    *((TopK(axis, largest, k=2), (X[:1],)) for axis in (1, -1) for largest in (False, True)),
    (TopK(0, True, k=1), (X[:1],)),
    *((TopK(-1, f, k=k), (a,)) for f in (False, True) for k in (0, 1, 3) for a in (LINES, LINES.T, TIES, TIES[:, 1])),
    *((CumulativeSum(axis), (a,)) for axis in (0, 1) for a in (X, WHOLE, X.astype(np.float16), X.T)),
    (CumulativeSum(0, exclusive=True), (X,)),
    (Slice((0, 3), (3, 0), (2, -1)), (X,)),
    (Slice((), (), ()), (np.array(2.5),)),
    (Transpose((1, 0)), (X,)),
    (Transpose((1, 2, 0)), (X.reshape(3, 2, 2),)),
    (Where(), (X > 0, X, np.array(1, np.float32))),
    (Concat(1), (X, X[:, :1], X)),
    (MatMul(), (X[:2, 2:3], X[1:2])),
    (MatMul(), (np.ones((2, 8), np.float32)[:, ::2], np.ones((4, 3), np.float32) / 3)),
    (MatMul(transpose_b=True), (X, X)),
    *((MatMul(a, b), (FINE.T if a else FINE, FINE.T if b else FINE)) for a in (False, True) for b in (False, True)),
    *((MatMul(a, b), (FINE.T.copy() if a else FINE, FINE.copy("F"))) for a in (False, True) for b in (False, True)),
    *((MatMul(transpose_b=True), (FINE[:n], FINE[:m], FINE[k, :m])) for n in (1, 5) for m in (1, 2, 9) for k in (0, 1)),
    (MatMul(transpose_b=True), (FINE, FINE, FINE[:, :1].astype(np.float64))),
    (MatMul(), (FINE[0], FINE)),
    *((Gather(0), (X, at)) for at in (AT, np.array(-1), OUTSIDE)),
    (Gather(1), (X, PLACES)),
    (GatherND(), (X, PLACES)),
    (GatherND(), (X, np.array([[9, -9]]))),
    *((GatherND(), (X, at)) for at in (np.array([[2], [-1]]), np.array([[0], [9]]))),
    (GatherElements(1), (X, PLACES)),
    (GatherElements(0), (X, np.array([[8, 0, -3, -9]]))),
    (ScatterND(), (X, PLACES, np.array([5, 6], np.float32))),
    (ScatterElements(1), (X, PLACES, np.array([[5, 6], [7, 8]], np.float32))),
]


def test_a_spelling_makes_what_the_reference_makes() -> None:
    spelled_kinds = set()
    for primitive, arguments in CASES:
        compute = spelled(primitive, [Layout.of(a) for a in arguments])
        if compute is None:
            continue
        spelled_kinds.add(primitive.kind)
        before = [a.copy() for a in arguments]
        with np.errstate(all="ignore"):
            found = compute(*arguments)
        wanted = primitive.reference(*arguments)
        for mine, its in zip(found if type(found) is tuple else [np.asarray(found)], wanted, strict=True):
            assert (mine.dtype, mine.shape, mine.tobytes()) == (its.dtype, its.shape, its.tobytes()), primitive
        for a, b in zip(arguments, before, strict=True):
            assert a.tobytes() == b.tobytes(), f"{primitive} writes to its arguments"
    assert spelled_kinds == {p.kind for p, _ in CASES}


def test_types_that_numpy_has_not_itself_are_left_to_references() -> None:
    layouts = [Layout.of(X.astype(ml_dtypes.bfloat16))] * 2
    assert spelled(Eltwise("add"), layouts) is None
    assert spelled(Eltwise("add"), [replace(x, dtype=DType.F32) for x in layouts]) is not None


def test_arithmetic_by_name_is_all_there() -> None:
    for function in ARITHMETIC:
        kinds = np.int64 if function.startswith("shift") else np.float32
        assert spelled(Eltwise(function), [Layout.of(np.ones(2, kinds))] * 2) is not None


def test_what_takes_several_calls_is_expected_to_take_as_long_as_a_reference() -> None:
    topology = Topology()
    topology.add("y", TopK(0, k=2), topology.input("x", (6,)), outputs=("y", "places"))
    topology.output("y")
    topology.output("places")
    assert HostPlan(topology.build(), {}).seconds >= REFERENCE_SECONDS
