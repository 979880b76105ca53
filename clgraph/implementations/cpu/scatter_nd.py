"""Updates of slices at rows of coordinates on CPU devices."""

from __future__ import annotations

from math import prod

from clgraph.implementations.cpu.coordinates import Coordinates
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS
from clgraph.implementations.cpu.put_elements import PutElements, Puts
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.scatter_nd import ScatterND
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(ScatterND, name="scatter_nd.elements", serves=ANY_ELEMENTS)
class ScatterNDElements(PutElements):
    """One line: a row of coordinates a step, and along its width the elements of a slice."""

    @classmethod
    def puts(cls, q: Query[ScatterND]) -> Puts:
        x, indices, _ = q.own
        depth = indices.shape[-1]
        size = prod(x.shape[depth:])
        steps = Axis(prod(indices.shape[:-1]), (depth, size, 0))
        place = Coordinates(tuple(zip(x.shape[:depth], x.all_pitches, strict=False)), 1)
        return Puts((), steps, Axis(size, (0, 1, 1)), place)
