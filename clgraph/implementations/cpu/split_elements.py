"""Splits of elements of any type on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.split import Split
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Split, name="split.elements", serves=ANY_ELEMENTS)
class SplitElements(MovedElements):
    """Each part moved to its result."""

    @classmethod
    def moves(cls, q: Query[Split]) -> Sequence[Move]:
        x, axis, start, found = q.inputs[0], q.primitive.axis, 0, []
        for slot, y in enumerate(q.outputs):
            pairs = zip(y.shape, x.all_pitches, y.all_pitches, strict=True)
            inp = Ref("in0", start * x.all_pitches[axis] * x.dtype.itemsize)
            found.append(Move(inp, Ref(f"out{slot}"), tuple(Axis(size, (a, b)) for size, a, b in pairs)))
            start += y.shape[axis]
        return found
