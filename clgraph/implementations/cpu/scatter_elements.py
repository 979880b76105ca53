"""Updates of elements one by one along an axis on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.coordinates import Coordinates
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS
from clgraph.implementations.cpu.put_elements import PutElements, Puts
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(ScatterElements, name="scatter_elements.elements", serves=ANY_ELEMENTS)
class ScatterElementsElements(PutElements):
    """Lines along the axis, side by side where others lie behind it."""

    @classmethod
    def puts(cls, q: Query[ScatterElements]) -> Puts:
        (x, indices, updates), axis = q.own, q.primitive.axis
        pitches = zip(indices.all_pitches, updates.all_pitches, x.all_pitches, strict=True)
        axes = [Axis(n, p) for n, p in zip(indices.shape, pitches, strict=True)]
        steps = axes.pop(axis)
        lines = merge(axes)
        width = lines.pop() if lines and lines[-1].pitches[2] == 1 else Axis(1, (0, 0, 0))
        return Puts(tuple(lines), steps, width, Coordinates(((x.shape[axis], x.all_pitches[axis]),)))
