"""Copies of elements of any type under another shape on CPU devices, where a reshape cannot share memory."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.reshape import Reshape
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Reshape, name="reshape.elements", serves=ANY_ELEMENTS)
class ReshapeElements(MovedElements):
    """A copy from one dense tensor to another."""

    @classmethod
    def moves(cls, q: Query[Reshape]) -> Sequence[Move]:
        return (Move(Ref("in0"), Ref("out0"), (Axis(q.inputs[0].count, (1, 1)),)),)
