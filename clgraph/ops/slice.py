"""Every step-th element of a range of each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.attributes import ints, positive_axis, present, read_values
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes, held
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import General, move
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View

_END = (1 << 63) - 1
"""What ends an axis of any size."""

_INPUTS = ("starts", "ends", "axes", "steps")


@primitive
@frozen
class Slice(Primitive):
    """Element i of an axis of ``y`` is element ``start + i * step`` of x.

    Attributes:
        starts, ends, steps: One entry an axis, or before ``bind`` one entry of ``axes``. Negative ones count from
            the back; bound, only the end of a step that goes back to the first element is: ``-size - 1``.
        axes: Before ``bind``: the axes that the entries are for; ``None``: the first ones.
        reads: Names of the value inputs, before ``bind``.
        follows: Whether its ends are as far from those of x whatever the sizes: a pass that makes a slice may say so.
    """

    starts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    axes: tuple[int, ...] | None = None
    reads: tuple[str, ...] = ()
    follows: bool = False

    kind: ClassVar[str] = "slice"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        found = {name: ints(v) for name, v in read_values(self.reads, values).items()}
        starts, ends = found.get("starts", self.starts), found.get("ends", self.ends)
        steps = found.get("steps", self.steps) or (1,) * len(starts)
        axes = found.get("axes", self.axes)
        shape = inputs[0].shape
        axes = tuple(range(len(starts))) if axes is None else axes
        if not len(starts) == len(ends) == len(steps) == len(axes) or 0 in steps:
            raise ShapeError(f"starts {starts}, ends {ends}, steps {steps} and axes {axes} do not fit one another")
        whole = [(0, d, 1) for d in shape]
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            place = positive_axis(axis, len(shape))
            # ONNX starts a step back in front of the first element there, where NumPy takes nothing.
            first, stop, _ = slice(max(start, -shape[place]) if step < 0 else start, end, step).indices(shape[place])
            some = len(range(first, stop, step)) > 0
            whole[place] = (first, stop if stop >= 0 else -1 - shape[place], step) if some else (0, 0, step)
        starts, ends, steps = tuple(zip(*whole, strict=True)) or ((), (), ())
        return Bound(Slice(starts, ends, steps), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if not x.rank == len(self.starts) == len(self.ends) == len(self.steps):
            raise ShapeError(f"starts, ends and steps want one entry for each of {x.rank} axes")
        return (x.with_shape(self.sizes),)

    @property
    def sizes(self) -> Shape:
        """The shape of the result of a bound slice."""
        rows = zip(self.starts, self.ends, self.steps, strict=True)
        return tuple(len(range(start, max(end, -1) if step < 0 else end, step)) for start, end, step in rows)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        window = tuple([slice(*row) for row in zip(self.starts, self.ends, self.steps, strict=True)])
        part = inputs[0][window]
        return (np.ascontiguousarray(part).reshape(part.shape),)

    def at_any_size(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound | None:
        if any(values[i] is None for i in self._values_of(inputs)):
            return None
        found = {name: ints(v) for name, v in read_values(self.reads, values).items()}
        starts, ends = found.get("starts", self.starts), found.get("ends", self.ends)
        steps, axes = found.get("steps", self.steps) or (1,) * len(starts), found.get("axes", self.axes)
        if min(steps, default=1) < 1:
            return None  # where those that go back start, and end, depends on the size
        self.bind(inputs, values)
        whole = [(0, _END, 1)] * inputs[0].rank
        for axis, *row in zip(range(len(starts)) if axes is None else axes, starts, ends, steps, strict=True):
            whole[axis] = (row[0], row[1], row[2])
        starts, ends, steps = tuple(zip(*whole, strict=True)) or ((), (), ())
        return Bound(Slice(starts, ends, steps), (0,))

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        starts, ends, steps = (held(row, axes) for row in (self.starts, self.ends, self.steps))
        return Permuted.along(replace(self, starts=starts, ends=ends, steps=steps), axes, 1)

    def resized(self, shape: Shape, other: Shape) -> Primitive | None:
        if not self.follows:
            return None
        return replace(self, ends=tuple(e + new - old for e, old, new in zip(self.ends, shape, other, strict=True)))


@onnx("Slice", since=(1, 10, 11, 13))
def import_slice(node: OnnxNode) -> Primitive:
    axes = node.attribute("axes", None)
    return Slice(
        tuple(node.attribute("starts", ())),
        tuple(node.attribute("ends", ())),
        axes=None if axes is None else tuple(axes),
        reads=present(_INPUTS, node.inputs),
    )


@implements(Slice, name="slice.ref", serves=Serves(dtypes=frozenset(DType)), general=True)
class SliceRef(General[Slice]):
    """A copy from a view that starts and steps elsewhere."""

    @classmethod
    def plan(cls, q: Query[Slice]) -> Plan:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        origin = x.origin + sum(s * p for s, p in zip(f.starts, x.all_pitches, strict=True))
        part = View(origin, tuple(s * p for s, p in zip(f.steps, x.all_pitches, strict=True)))
        return Plan((move(x, ("in0", part), ("out0", View.of(y)), y.shape),))
