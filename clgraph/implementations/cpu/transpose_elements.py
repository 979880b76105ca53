"""Transposes of elements of any type on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.transpose import Transpose
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Transpose, name="transpose.elements", serves=ANY_ELEMENTS)
class TransposeElements(MovedElements):
    """A walk in the order of the result."""

    @classmethod
    def moves(cls, q: Query[Transpose]) -> Sequence[Move]:
        x, y = q.inputs[0].all_pitches, q.outputs[0]
        axes = [Axis(y.shape[i], (x[a], y.all_pitches[i])) for i, a in enumerate(q.primitive.axes)]
        return (Move(Ref("in0"), Ref("out0"), tuple(axes)),)
