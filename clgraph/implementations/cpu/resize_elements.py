"""Tensors whose elements are repeated by a nearest resize, of any type, on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.resize import Resize
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Resize, name="resize.elements", serves=ANY_ELEMENTS)
class ResizeElements(MovedElements):
    """Two axes for each: the place in the input, and the repetition, along which the input stands still.

    A row is all of the last axis, every so many places of the result.
    """

    @classmethod
    def refused(cls, q: Query[Resize]) -> str | None:
        x, (y,) = q.inputs[0], q.outputs
        for axis, (size, wanted) in enumerate(zip(x.shape, y.shape, strict=True)):
            if not size or wanted % size or not q.primitive.repeats(axis, size):
                return "picks the nearest element, as many times each"
        return None

    @classmethod
    def moves(cls, q: Query[Resize]) -> Sequence[Move]:
        x, (y,) = q.inputs[0], q.outputs
        axes: list[Axis] = []
        for size, wanted, a, b in zip(x.shape, y.shape, x.all_pitches, y.all_pitches, strict=True):
            count = wanted // size
            axes += [Axis(size, (a, b * count)), Axis(count, (0, b))]
        axes[-2:] = axes[:-3:-1]
        return (Move(Ref("in0"), Ref("out0"), tuple(axes)),)
