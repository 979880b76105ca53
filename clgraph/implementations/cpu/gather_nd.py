"""Slices picked by rows of coordinates on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.coordinates import Coordinates
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS
from clgraph.implementations.cpu.pick_elements import PickedElements, Picks
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.gather_nd import GatherND
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(GatherND, name="gather_nd.elements", serves=ANY_ELEMENTS)
class GatherNDElements(PickedElements):
    """A row of coordinates for each slice."""

    @classmethod
    def picks(cls, q: Query[GatherND]) -> Picks:
        (x, indices), (y,), batch = q.own, q.outputs, q.primitive.batch
        depth, picked = indices.shape[-1], indices.rank - 1
        still = (*x.all_pitches[:batch], *(0,) * (picked - batch), *x.all_pitches[batch + depth :])
        rows = (*indices.all_pitches[:-1], *(0,) * (y.rank - picked))
        axes = tuple(Axis(*axis) for axis in zip(y.shape, zip(still, rows, strict=True), strict=True))
        read = slice(batch, batch + depth)
        return Picks(axes, Coordinates(tuple(zip(x.shape[read], x.all_pitches[read], strict=True)), 1))
