"""A tensor repeated: broadcast to a shape, or tiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import ints, known_ints, positive_axis, read_values
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes, held
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import General, move
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class Expand(Primitive):
    """``y`` is x broadcast to *shape*.

    Attributes:
        shape: Of the result; before ``bind`` any shape that broadcasts with that of x.
        reads: Names of the value inputs, before ``bind``: ``("shape",)`` or nothing.
    """

    shape: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "expand"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        found = read_values(self.reads, values)
        wanted = ints(found["shape"]) if found else self.shape
        try:
            return Bound(Expand(broadcast(inputs[0].shape, wanted)), (0,))
        except ValueError as error:
            raise ShapeError(f"{list(inputs[0].shape)} does not broadcast with {list(wanted)}") from error

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        if broadcast(inputs[0].shape, self.shape) != self.shape:
            raise ShapeError(f"{list(inputs[0].shape)} does not broadcast to {list(self.shape)}")
        return (inputs[0].with_shape(self.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.broadcast_to(inputs[0], self.shape).copy(),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        if len(axes) != len(self.shape):
            return None
        return Permuted.along(Expand(held(self.shape, axes)), axes, 1)


@primitive
@frozen
class Repeat(Primitive):
    """``y`` is x as a tile, *repeats* times along each axis: ONNX's Tile.

    Attributes:
        reads: Names of the value inputs, before ``bind``: ``("repeats",)`` or nothing.
    """

    repeats: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "repeat"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        found = read_values(self.reads, values)
        return Bound(replace(self, repeats=ints(found["repeats"]) if found else self.repeats, reads=()), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if len(self.repeats) != x.rank or min(self.repeats, default=0) < 0:
            raise ShapeError(f"repeats {list(self.repeats)} want one number >= 0 for each of {x.rank} axes")
        return (x.with_shape(tuple(d * n for d, n in zip(x.shape, self.repeats, strict=True))),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.tile(inputs[0], self.repeats),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(Repeat(held(self.repeats, axes)), axes, 1)


@onnx("Expand", since=(8, 13))
def import_expand(node: OnnxNode) -> Primitive:
    return Expand(reads=("shape",))


@primitive
@frozen
class RepeatAlong(Composite):
    """``y`` is x, so often behind itself along an axis: ONNX's Tile of version 1. Inputs: x, how often, the axis."""

    kind: ClassVar[str] = "repeat_along"

    def value_slots(self) -> tuple[int, ...]:
        """Return the slots of how often, and of the axis."""
        return 1, 2

    def compose(self, c: Composition) -> Sequence[str]:
        repeats = [1] * c.layout(c.inputs[0]).rank
        (count,), (axis,) = known_ints(c.values, 1, "tiles"), known_ints(c.values, 2, "axis")
        repeats[positive_axis(axis, len(repeats))] = count
        return (c.add(Repeat(tuple(repeats)), c.inputs[0]),)


@onnx("Tile", since=(1,))
def import_tile_along(node: OnnxNode) -> Primitive:
    return RepeatAlong()


@onnx("Tile", since=(6, 13))
def import_tile(node: OnnxNode) -> Primitive:
    return Repeat(reads=("repeats",))


@implements(Expand, name="expand.ref", serves=Serves(dtypes=frozenset(DType)), general=True)
class ExpandRef(General[Expand]):
    """A copy from a view that stands still along the broadcast axes."""

    @classmethod
    def plan(cls, q: Query[Expand]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        return Plan((move(x, ("in0", View.of(x, y.shape)), ("out0", View.of(y)), y.shape),))


@implements(Repeat, name="repeat.ref", serves=Serves(dtypes=frozenset(DType)), general=True)
class RepeatRef(General[Repeat]):
    """A copy with two axes for each: the repetition, along which the view of x stands still, and the place in it."""

    @classmethod
    def plan(cls, q: Query[Repeat]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        dims = tuple(v for row in zip(q.primitive.repeats, x.shape, strict=True) for v in row)
        source = View(x.origin, tuple(v for p in x.all_pitches for v in (0, p)))
        rows = zip(y.all_pitches, x.shape, strict=True)
        target = View(y.origin, tuple(v for p, d in rows for v in (p * d, p)))
        return Plan((move(x, ("in0", source), ("out0", target), dims),))
