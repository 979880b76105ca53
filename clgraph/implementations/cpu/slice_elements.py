"""Slices of elements of any type on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.slice import Slice
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Slice, name="slice.elements", serves=ANY_ELEMENTS)
class SliceElements(MovedElements):
    """A view of the input with the slice's start and steps."""

    @classmethod
    def moves(cls, q: Query[Slice]) -> Sequence[Move]:
        p, x, (y,) = q.primitive, q.inputs[0], q.outputs
        start = sum(at * pitch for at, pitch in zip(p.starts, x.all_pitches, strict=True))
        sizes = zip(y.shape, x.all_pitches, p.steps, y.all_pitches, strict=True)
        axes = tuple(Axis(size, (pitch * step, out)) for size, pitch, step, out in sizes)
        return (Move(Ref("in0", start * x.dtype.itemsize), Ref("out0"), axes),)
