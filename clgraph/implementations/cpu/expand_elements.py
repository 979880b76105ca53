"""Tensors that are repeated, of elements of any type, on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.repetitions import repetitions
from clgraph.implementations.cpu.rows import Axis, broadcast_pitches
from clgraph.ops.expand import Expand
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Expand, name="expand.elements", serves=ANY_ELEMENTS)
class ExpandElements(MovedElements):
    """The input stands still along the axes that it is broadcast along."""

    @classmethod
    def moves(cls, q: Query[Expand]) -> Sequence[Move]:
        (y,) = q.outputs
        pairs = zip(y.shape, broadcast_pitches(q.inputs[0], y.rank), y.all_pitches, strict=True)
        return repetitions([Axis(size, (a, b)) for size, a, b in pairs], y.dtype.itemsize)
