"""Elements picked one by one along an axis on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.coordinates import Coordinates
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS
from clgraph.implementations.cpu.pick_elements import PickedElements, Picks
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.gather_elements import GatherElements
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(GatherElements, name="gather_elements.elements", serves=ANY_ELEMENTS)
class GatherElementsElements(PickedElements):
    """One coordinate an element; along the other axes x and the indices are walked together."""

    @classmethod
    def picks(cls, q: Query[GatherElements]) -> Picks:
        (x, indices), axis = q.own, q.primitive.axis
        pitches = zip(indices.shape, x.all_pitches, indices.all_pitches, strict=True)
        axes = tuple(Axis(n, (0 if a == axis else p, i)) for a, (n, p, i) in enumerate(pitches))
        return Picks(axes, Coordinates(((x.shape[axis], x.all_pitches[axis]),)))
