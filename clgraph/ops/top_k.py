"""The largest or smallest elements along an axis, and where they stand: ONNX's TopK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known_ints, positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import REFERENCE_SECONDS, Array, Bound, Primitive, primitive
from clgraph.selector.general import INTEGERS, REALS, General, float_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan, Table
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, space

MANY = 4096
"""Elements from which choosing the best of each line takes less time than sorting lines."""

SORTED_SECONDS = 2e-8
"""What sorting lines takes for an element, beside its arithmetic: about 30 ns in all, in lines of 100 elements."""


@primitive
@frozen
class TopK(Primitive):
    """The first *k* elements along *axis*, best first, and their places (int64); of equal ones the first comes first.

    Attributes:
        k: ``None`` before ``bind``: the value of input 1.
        largest: Whether the largest are best.
    """

    axis: int = -1
    largest: bool = True
    k: int | None = None

    kind: ClassVar[str] = "top_k"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        if not inputs[0].rank:
            raise ShapeError("a scalar has no axis to sort along")
        k = _count(known_ints(values, 1, "k")) if self.k is None else self.k
        return Bound(replace(self, axis=positive_axis(self.axis, inputs[0].rank), k=k), (0,))

    def at_any_size(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound | None:
        return None if self.k is None and values[1] is None else self.bind(inputs, values)

    def value_slots(self) -> tuple[int, ...]:
        return (1,) if self.k is None else ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,), k = inputs, self.k or 0
        axis = positive_axis(self.axis, x.rank)
        if not 0 <= k <= x.shape[axis]:
            raise ShapeError(f"{list(x.shape)} does not have {k} elements along axis {axis}")
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return x.with_shape(shape), Layout(DType.I64, shape)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, k, axis = inputs[0], self.k or 0, positive_axis(self.axis, inputs[0].ndim)
        best = _best(np.moveaxis(x, axis, -1), k, self.largest)
        if best is None:
            places = self._places(x, axis)
        else:
            chosen = np.moveaxis(best, -1, axis)
            places = np.take_along_axis(chosen, self._places(np.take_along_axis(x, chosen, axis), axis), axis)
        return np.take_along_axis(x, places, axis), places

    def _places(self, x: Array, axis: int) -> Array:
        """Return the places of the first k elements of sorted lines."""
        if self.largest:
            order = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
            order = x.shape[axis] - 1 - order
        else:
            order = np.argsort(x, axis, kind="stable")
        return order.take(np.arange(self.k or 0), axis).astype(np.int64)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 10.0 * inputs[0].count

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return REFERENCE_SECONDS + SORTED_SECONDS * min(inputs[0].count, MANY)


def _best(x: Array, k: int, largest: bool) -> Array | None:
    """Return the places of the *k* best of each line, ascending, without sorting lines; ``None`` where sorting is due.

    That is where there are few elements, or k is many of them, or some are not numbers, or no type of NumPy's.
    """
    n = x.shape[-1]
    if x.size < MANY or not 0 < 4 * k <= n or x.dtype.isbuiltin != 1 or bool(np.isnan(x).any()):
        return None
    at = n - k if largest else k - 1
    last = np.partition(x, at, -1)[..., at : at + 1]
    better, equal = (x > last if largest else x < last), x == last
    chosen = better | (equal & (np.cumsum(equal, -1) <= k - better.sum(-1, keepdims=True)))
    return np.nonzero(chosen)[-1].reshape(*x.shape[:-1], k)


def _count(k: tuple[int, ...]) -> int:
    if len(k) != 1:
        raise ShapeError(f"k is one number, not {list(k)}")
    return k[0]


@onnx("TopK", since=(1, 10, 11, 24))
def import_top_k(node: OnnxNode) -> Primitive:
    return TopK(node.attribute("axis", -1), bool(node.attribute("largest", 1)), node.attribute("k", None))


SERVES = Serves(dtypes=REALS | INTEGERS, mixed=True)


class TopKLine(General[TopK]):
    """What implementations have in common: the views of x, result and places without the axis, and its pitches."""

    @classmethod
    def numbers(cls, q: Query[TopK], *, axis_last: bool) -> tuple[Space, Table, Jit]:
        """Return the axes that are counted, with the axis or without, and what the kernel is given."""
        x, (y, places), axis = q.inputs[0], q.outputs, q.primitive.axis

        def still(layout: Layout) -> View:
            return View(layout.origin, tuple(0 if a == axis else p for a, p in enumerate(layout.all_pitches)))

        others = [a for a in range(x.rank) if a != axis]
        s = space(x.shape, [still(v) for v in (x, y, places)], [others, [axis]] if axis_last else [others])
        line = [v.all_pitches[axis] for v in (x, y, places)]
        numbers = table(s.dims, *s.views, [x.shape[axis], q.primitive.k or 0, int(q.primitive.largest), *line])
        if x.dtype.floating:
            return s, numbers, float_jit(x.dtype, len(s.dims))
        return s, numbers, Jit().define(RANK=len(s.dims), T=x.dtype, V=x.dtype)


@implements(TopK, name="top_k.lines", serves=SERVES, general=True)
class TopKLines(TopKLine):
    """One work-item a line along the axis, which keeps the best so far as a heap in its results."""

    @classmethod
    def plan(cls, q: Query[TopK]) -> Plan:
        s, numbers, jit = cls.numbers(q, axis_last=False)
        count = s.counts[0] if q.outputs[0].count else 0
        return Plan((launch("top_k/top_k_lines", jit, count, "in0", "out0", "out1", numbers),))
