"""Concatenation of elements of any type on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.concat import Concat
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Concat, name="concat.elements", serves=ANY_ELEMENTS)
class ConcatElements(MovedElements):
    """Each input moved to its part of the result."""

    @classmethod
    def moves(cls, q: Query[Concat]) -> Sequence[Move]:
        (y,), axis, start, found = q.outputs, q.primitive.axis, 0, []
        for slot, x in enumerate(q.inputs):
            pairs = zip(x.shape, x.all_pitches, y.all_pitches, strict=True)
            out = Ref("out0", start * y.all_pitches[axis] * y.dtype.itemsize)
            found.append(Move(Ref(f"in{slot}"), out, tuple(Axis(size, (a, b)) for size, a, b in pairs)))
            start += x.shape[axis]
        return found
