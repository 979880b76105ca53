"""Tensors as tiles of larger ones, of elements of any type, on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, NARROW, Move, MovedElements
from clgraph.implementations.cpu.repetitions import repetitions
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.expand import Repeat
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
        first, *copies = repetitions(axes, y.dtype.itemsize)
        if x.rank > 1 and x.shape[-1] <= NARROW and 1 < q.primitive.repeats[-1] <= NARROW:
            first = replace(first, axes=_last_repetition_in_front(first.axes))
        return [first, *copies]


def _last_repetition_in_front(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Return *axes* with the last one along which the input stands still in front of the one before."""
    at = max(i for i, axis in enumerate(axes) if axis.pitches[0] == 0)
    return (*axes[: at - 1], *axes[at : at + 1], *axes[at - 1 : at], *axes[at + 1 :]) if at else tuple(axes)
