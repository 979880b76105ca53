"""Tensors as tiles of larger ones, of elements of any type, on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, NARROW, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.expand import Repeat
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Repeat, name="repeat.elements", serves=ANY_ELEMENTS)
class RepeatElements(MovedElements):
    """Two axes for each: the repetition, along which the input stands still, and the place in it.

    A short last axis that is repeated a few times is walked once for each time, along rows that are moved together.
    """

    @classmethod
    def moves(cls, q: Query[Repeat]) -> Sequence[Move]:
        x, (y,) = q.inputs[0], q.outputs
        axes: list[Axis] = []
        for count, size, a, b in zip(q.primitive.repeats, x.shape, x.all_pitches, y.all_pitches, strict=True):
            axes += [Axis(count, (0, b * size)), Axis(size, (a, b))]
        if x.rank > 1 and x.shape[-1] <= NARROW and 1 < q.primitive.repeats[-1] <= NARROW:
            axes[-3], axes[-2] = axes[-2], axes[-3]
        return (Move(Ref("in0"), Ref("out0"), tuple(axes)),)
