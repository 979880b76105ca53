"""Sampling of images at given coordinates on CPU devices."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.ops.grid_sample import PADDINGS, GridSample
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_PLACES = 16
_SHARE = 0.1
"""Of the peak, while four pixels are read for each place and channel. An estimate."""


@implements(GridSample, name="grid_sample.rows", serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})))
class GridSampleRows(General[GridSample]):
    """A work-item mixes sixteen places of all channels linearly: a place's pixels are found once."""

    @classmethod
    def further_limits(cls, q: Query[GridSample]) -> str | None:
        if q.primitive.mode != "linear" or q.inputs[0].rank != 4:
            return "mixes linearly, along two axes"
        dense = all(x.is_dense_plain for x in (*q.own, *q.outputs))
        return None if dense else "requires tensors without gaps"

    @classmethod
    def cost(cls, q: Query[GridSample]) -> float:
        return roofline(q, _SHARE)

    @classmethod
    def plan(cls, q: Query[GridSample]) -> Plan:
        x, (y,), f = q.own[0], q.outputs, q.primitive
        places, (batch, channels, rows, columns) = prod(y.shape[2:]), x.shape
        plane = rows * columns
        images = [channels * plane, channels * places, 2 * places]
        how = [PADDINGS.index(f.padding), int(f.corners)]
        numbers = table(images, [places, channels, plane, places, rows, columns, columns], how)
        count = batch * -(-places // _PLACES)
        return Plan((launch("grid_sample/grid_sample_rows", Jit(), count, "in0", "in1", "out0", numbers),))
