"""Plans of stages for any sizes: they compute what the layers do, and refuse what these refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ClgraphError, RunCancelledError
from clgraph.graph.interpret import compute, interpret
from clgraph.graph.primitive import PRIMITIVES, Array, Primitive
from clgraph.graph.topology import Topology
from clgraph.model.stages.open_plan import OpenPlan, OpenPlans
from clgraph.ops.activation import Activation
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.gather_nd import GatherND
from clgraph.ops.matmul import MatMul
from clgraph.ops.pad import Pad
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Flatten, Reshape, Squeeze, Unsqueeze
from clgraph.ops.shape import EveryPlace, ShapeOf, Size
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.top_k import TopK
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where

X = "x"
"""Stands for an input of floats in a row of :data:`CASES`; its rank stands behind it."""

CASES: list[tuple[Primitive, list[tuple[str, int] | Array]]] = [
    (Eltwise("add"), [(X, 2), (X, 2)]),
    (Eltwise("prelu"), [(X, 2), (X, 1)]),
    (Eltwise("less"), [(X, 1), (X, 3)]),
    (Activation("tanh"), [(X, 2)]),
    (Where(), [np.array([True, False]), (X, 2), (X, 1)]),
    (Concat(-1), [(X, 2), (X, 2)]),
    (Gather(-1), [(X, 2), np.array([0, -1, 5])]),
    (GatherND(), [(X, 2), ("i", 2)]),
    (GatherND(1), [(X, 3), ("i", 2)]),
    (MatMul(), [(X, 2), (X, 2)]),
    (MatMul(), [(X, 3), (X, 3)]),
    (MatMul(transpose_b=True), [(X, 2), (X, 2), (X, 1)]),
    (MatMul(), [(X, 2), (X, 2), (X, 2)]),
    (MatMul(), [(X, 1), (X, 1), (X, 0)]),
    (Reduce("mean", (-1,)), [(X, 2)]),
    (Reduce("sum", reads=("axes",)), [(X, 3), np.array([0, -1])]),
    (ArgExtremum(False, -1, False, True), [(X, 2)]),
    (Softmax((-1,)), [(X, 2)]),
    (Reorder(DType.I32), [(X, 2)]),
    (Transpose(), [(X, 3)]),
    (Slice((-2,), (9,), axes=(-1,)), [(X, 2)]),
    (Slice(reads=("starts", "ends", "axes", "steps")), [(X, 2), *(np.array([n]) for n in (1, -1, 0, 2))]),
    (Slice((-1,), (-9,), (-1,), axes=(0,)), [(X, 2)]),
    (TopK(0), [(X, 2), np.array([2])]),
    (Flatten(1), [(X, 3)]),
    (Reshape((0, -1, 2)), [(X, 2)]),
    (Squeeze((1,)), [(X, 2)]),
    (Unsqueeze((0, -1)), [(X, 2)]),
    (ShapeOf(1), [(X, 2)]),
    (Size(), [(X, 2)]),
    (EveryPlace(), [(X, 2)]),
]


def inputs_of(row: list[tuple[str, int] | Array], shapes: tuple[tuple[int, ...], ...]) -> list[Array]:
    """Return the arrays of a row of :data:`CASES`, those that are open of *shapes*."""
    left, arrays = iter(shapes), list[Array]()
    for given in row:
        if isinstance(given, tuple):
            shape = next(left)
            values = np.arange(np.prod(shape)).reshape(shape)
            arrays.append(values % 2 if given[0] == "i" else np.sin(values).astype(np.float32))
        else:
            arrays.append(given)
    return arrays


def shapes_of(row: list[tuple[str, int] | Array]) -> list[tuple[tuple[int, ...], ...]]:
    """Return combinations of sizes 1 to 3 for what is open in a row of :data:`CASES`."""
    ranks = [given[1] for given in row if isinstance(given, tuple)]
    return list(itertools.product(*(itertools.product((1, 2, 3), repeat=rank) for rank in ranks)))


def _counted(operations: float) -> None:
    """Make ``compute`` infer the results' sizes, to count, as a stage does."""
    assert operations >= 0


def found(run: Callable[[], tuple[Array, ...]]) -> list[Array] | None:
    """Return what *run* makes; ``None`` where it raises."""
    try:
        return [np.asarray(a) for a in run()]
    except Exception:  # references may raise of any class
        return None


@pytest.mark.parametrize(("primitive", "row"), CASES, ids=lambda x: str(x) if isinstance(x, Primitive) else "")
def test_what_is_bound_for_any_sizes_computes_and_refuses_the_same_for_all(
    primitive: Primitive, row: list[tuple[str, int] | Array]
) -> None:
    accepted = 0
    combinations = shapes_of(row)
    for shapes in combinations:
        first = inputs_of(row, shapes)
        if found(lambda: compute(primitive, first, _counted)) is not None:  # noqa: B023  # called at once
            break
    values = [None if isinstance(given, tuple) else given for given in row]
    bound = primitive.at_any_size([Layout.of(a) for a in first], values)
    if isinstance(primitive, Slice) and min(primitive.steps, default=1) < 0:
        assert bound is None
        return
    assert bound is not None
    for shapes in combinations[:: max(1, len(combinations) // 250)]:
        arrays = inputs_of(row, shapes)
        wanted = found(lambda: compute(primitive, arrays, _counted))  # noqa: B023
        made = found(lambda: bound.primitive.reference(*(arrays[i] for i in bound.keep)))  # noqa: B023
        assert (made is None) == (wanted is None), shapes
        for a, b in zip(made or (), wanted or (), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        accepted += wanted is not None
    assert accepted


def test_every_primitive_that_says_so_is_among_the_cases() -> None:
    tried = {type(primitive) for primitive, _ in CASES}
    said = {p for p in PRIMITIVES.values() if p.reference_checks or p.computes_unbound}
    assert said <= tried


def boxes(dtype: object = np.float32) -> Topology:
    """A tail of a detector: rows are picked, halves added to one another and joined to what does not depend on x."""
    t = Topology()
    x, places = t.input("x", ("n", 4), dtype), t.input("places", ("k",), DType.I64)
    low = t.add("low", Slice((0,), (2,), axes=(1,)), x)
    high = t.add("high", Slice((2,), (4,), axes=(1,)), x)
    both = t.add("both", Concat(1), t.add("sum", Eltwise("add"), low, high), high)
    fixed = t.add("fixed", Unsqueeze((0,)), t.constant("one", np.ones(4, DType.of(dtype).numpy)))
    picked = t.add("picked", Gather(0), t.add("more", Eltwise("add"), both, fixed), places)
    t.output("y", t.add("padded", Pad(((1, 0), (0, 0))), picked))
    t.output("fixed")
    return t


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_plan_for_any_sizes_computes_what_the_layers_do(dtype: type) -> None:
    topology, plans, spent = boxes(dtype), OpenPlans(boxes(dtype)), list[float]()
    for n, k in ((3, 2), (5, 1), (1, 7), (200, 90), (2, 2)):
        x: np.ndarray = np.sin(np.arange(4.0 * n)).reshape(n, 4).astype(dtype)
        feeds = {"x": x, "places": np.arange(k) % n}
        made, wanted = plans.run(feeds, spent.append), interpret(topology, feeds)
        assert (made is None) == (n == 3)
        for name, array in (made or {}).items():
            assert array.dtype == wanted[name].dtype
            np.testing.assert_array_equal(array, wanted[name])
    assert len(plans._plans) == 1
    assert spent


def test_what_is_the_same_in_each_run_is_computed_once_and_what_sizes_decide_is_bound_in_each() -> None:
    topology = boxes()
    plan = OpenPlan(topology, {"x": np.ones((3, 4), np.float32), "places": np.array([0])}, lambda _: None)
    bound_each_time = [step.unbound.kind for step in plan._steps if step.computation is None]
    assert bound_each_time == ["pad"]
    assert len(plan._steps) == len(topology.layers) - 1


def test_empty_tensors_and_other_ranks_inside_are_left_to_the_layers() -> None:
    t = Topology()
    x, to = t.input("x", ("n",)), t.input("to", ("k",), DType.I64)
    t.output("y", t.add("last", Gather(-1), t.add("r", Reshape(reads=("shape",)), x, to), t.constant("i", np.array(0))))
    plans, x6 = OpenPlans(t), np.arange(6, dtype=np.float32)
    for shape, has in (([2, 3], False), ([3, 2], True), ([1, 2, 3], False), ([6, 1], True)):
        made = plans.run({"x": x6, "to": np.array(shape)}, lambda _: None)
        assert (made is not None) == has
        if made is not None:
            np.testing.assert_array_equal(made["y"], x6.reshape(shape)[..., 0])
    assert plans.run({"x": x6[:0], "to": np.array([0, 1])}, lambda _: None) is None
    some = {"x": np.ones((3, 4), np.float32), "places": np.array([0])}
    assert OpenPlan(boxes(), some, lambda _: None).run([some["x"], np.zeros(0, np.int64)], lambda _: None) is None


def test_large_layers_are_counted_before_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed, add = list[int](), Eltwise.reference

    def reference(self: Eltwise, *inputs: Array) -> tuple[Array, ...]:
        computed.append(sum(a.size for a in inputs))
        return add(self, *inputs)

    class Stopped(BaseException):
        pass

    def spend(operations: float) -> None:
        if operations == 4e6:
            raise Stopped

    monkeypatch.setattr(Eltwise, "reference", reference)
    t = Topology()
    t.output("y", t.add("outer", Eltwise("add"), t.input("x", ("n", 1)), t.input("w", (1, "m"))))
    small = {"x": np.ones((2, 1), np.float32), "w": np.ones((1, 2), np.float32)}
    plan = OpenPlan(t, small, spend)
    plan.run(list(small.values()), spend)
    with pytest.raises(Stopped):
        plan.run([np.ones((2000, 1), np.float32), np.ones((1, 2000), np.float32)], spend)
    assert computed == [4, 4]


def test_element_types_and_ranks_are_forgotten() -> None:
    t = Topology()
    t.output("y", t.add("twice", Activation("linear", 2.0), t.input("x", None, None)))
    plans = OpenPlans(t)
    for rank, dtype in itertools.product(range(1, 8), (np.float32, np.float16, np.float64)):
        for _ in range(2):
            plans.run({"x": np.ones((1,) * rank, dtype)}, lambda _: None)
    assert len(plans._plans) == 16


def test_layers_that_cannot_be_bound_have_no_plan() -> None:
    t = Topology()
    t.output("y", t.add("joined", Concat(3), t.input("x", ("n",))))
    plans = OpenPlans(t)
    for _ in range(3):
        assert plans.run({"x": np.ones(3, np.float32)}, lambda _: None) is None
    with pytest.raises(ClgraphError, match="joined"):
        interpret(t, {"x": np.ones(3, np.float32)})


def test_a_run_that_is_cancelled_says_nothing_of_the_next_one() -> None:
    t = Topology()
    t.output("y", t.add("y", Activation("tanh"), t.input("x", ("n",))))
    plans, x = OpenPlans(t), np.linspace(-1, 1, 5, dtype=np.float32)

    def cancelled(operations: float) -> None:
        raise RunCancelledError("a run was cancelled")

    assert plans.run({"x": x}, cancelled) is None
    with pytest.raises(RunCancelledError):
        plans.run({"x": x}, cancelled)
    found = plans.run({"x": x}, lambda operations: None)
    assert found is not None
    np.testing.assert_array_equal(found["y"], interpret(t, {"x": x})["y"])
