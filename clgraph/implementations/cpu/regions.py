"""Regions of images as small images: a ticket makes blocks of neighbouring channels of some regions."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.cost import runs
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.selector.descriptor import Float, Int, Pointer, Ref, fields
from clgraph.selector.implementation import Implementation, roofline
from clgraph.selector.query import Query

P = TypeVar("P", bound=Primitive)

_WIDTH = 2048
"""Columns of the kernels' rows."""
_SHARE = 0.05
"""Of the peak. An estimate."""


@fields
class RegionFields:
    """Images, their regions and what is made of these; sizes; channels of a block, blocks of a region and of all."""

    inp: Pointer
    regions: Pointer
    out: Pointer
    pictures: Int
    channels: Int
    height: Int
    width: Int
    rows: Int
    columns: Int
    block: Int
    blocks: Int
    count: Int
    scale: Float
    ticket_blocks: Int


class ByRegions(Implementation[P]):
    """Images of floats, whose regions are the second input."""

    block: ClassVar[int]
    """Channels for which what a region needs of rows and columns is found once."""

    @classmethod
    def limits(cls, q: Query[P]) -> str | None:
        x = q.inputs[0]
        if not x.count or x.shape[3] > _WIDTH:
            return f"requires an image of at most {_WIDTH} columns"
        dense = all(v.is_dense_plain for v in (*q.inputs, *q.outputs))
        return count_refusal(q) if dense else "requires tensors without gaps"

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        return roofline(q, _SHARE)

    @classmethod
    def cut(cls, q: Query[P], scale: float) -> tuple[int, dict[str, Any]]:
        """Return the number of tickets, and the fields of regions that are multiplied by *scale*."""
        x, y = q.inputs[0].shape, q.outputs[0].shape
        blocks = -(-x[1] // cls.block)
        count = y[0] * blocks
        tickets = runs(max(count, 1), cls.cost(q) / max(count, 1), q.device)
        sizes = dict(zip(("pictures", "channels", "height", "width", "rows", "columns"), (*x, *y[2:]), strict=True))
        return tickets.count, {
            "inp": Ref("in0"),
            "regions": Ref("in1"),
            "out": Ref("out0"),
            **sizes,
            "block": cls.block,
            "blocks": blocks,
            "count": count,
            "scale": scale,
            "ticket_blocks": tickets.each,
        }
