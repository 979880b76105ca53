"""Bytes between plain tensors and blocks of 16 channels on CPU devices, which products of bytes read and make."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.cost import runs, step_seconds
from clgraph.implementations.cpu.geometry import Planes, blocked_refusal, planes
from clgraph.ops.reorder import Reorder
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor, fields
from clgraph.selector.implementation import Formats, Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_TILE = 16
"""Pixels that are moved together."""


@fields
class _Moved:
    """Fields as in ``block_bytes.cl``."""

    inp: Pointer
    out: Pointer
    in_n: Int
    in_c: Int
    out_n: Int
    out_c: Int
    pixels: Int
    blocks: Int
    lanes: Int
    strips: Int
    strip_pixels: Int


@descriptor("block_bytes", library="bytes", any_alignment=True)
class BlockBytesDesc(_Moved, Descriptor):
    """Fields as in ``block_bytes.cl``."""


@descriptor("unblock_bytes", library="bytes")
class UnblockBytesDesc(_Moved, Descriptor):
    """Fields as in ``unblock_bytes.cl``."""


MOVES_BYTES = Serves(dtypes=frozenset({DType.U8, DType.I8}), kinds=frozenset({"cpu"}), formats=True)


def _refusal(plain: Layout, blocks: Layout) -> str | None:
    if not plain.is_dense_plain:
        return f"serves dense plain tensors, not {plain}"
    if blocks.halo or blocks.all_pitches != blocks.dense_pitches:
        return f"serves dense blocks, not {blocks}"
    return blocked_refusal(blocks, "the other tensor")


def _seconds(q: Query[Reorder], blocks: Planes) -> float:
    return blocks.batch * blocks.blocks * blocks.height * blocks.width * q.device.costs.unit("copy.vector")


def _fields(q: Query[Reorder], blocks: Planes) -> tuple[dict[str, int], int]:
    """Return the fields that both directions share, and how many tickets there are."""
    pixels, each = blocks.height * blocks.width, blocks.batch * blocks.blocks
    tiles = -(-pixels // _TILE)
    strips = runs(tiles, _seconds(q, blocks) / (tiles * each), q.device)
    shared = {"pixels": pixels, "blocks": blocks.blocks, "lanes": blocks.lanes}
    return {**shared, "strips": strips.count, "strip_pixels": strips.each * _TILE}, each * strips.count


class _Mover(Implementation[Reorder]):
    """Moves bytes between the layouts that the query has."""

    @classmethod
    def formats(cls, q: Query[Reorder]) -> tuple[Formats, ...]:
        return (Formats(tuple(x.format for x in q.inputs), tuple(y.format for y in q.outputs)),)

    @classmethod
    def cost(cls, q: Query[Reorder]) -> float:
        blocked = next(v for v in (*q.outputs, *q.inputs) if v.format.blocks)
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, _seconds(q, planes(blocked)), moved, 8 * q.device.workers)


@implements(Reorder, name="reorder.block_bytes", serves=MOVES_BYTES)
class BlockBytes(_Mover):
    """Plain to blocks of 16 channels, 16 by 16 bytes at a time."""

    @classmethod
    def limits(cls, q: Query[Reorder]) -> str | None:
        return _refusal(q.inputs[0], q.outputs[0])

    @classmethod
    def plan(cls, q: Query[Reorder]) -> Plan:
        x, y = q.inputs[0], planes(q.outputs[0])
        fields_, tickets = _fields(q, y)
        pitches = {"in_n": x.all_pitches[0], "in_c": x.all_pitches[1], "out_n": y.n, "out_c": y.c}
        desc = BlockBytesDesc(inp=Ref("in0", x.origin), out=y.at("out0"), **pitches, **fields_)
        return Plan((Tile("block_bytes", desc, tickets),))


@implements(Reorder, name="reorder.unblock_bytes", serves=MOVES_BYTES)
class UnblockBytes(_Mover):
    """Blocks of 16 channels to plain, 16 by 16 bytes at a time."""

    @classmethod
    def limits(cls, q: Query[Reorder]) -> str | None:
        return _refusal(q.outputs[0], q.inputs[0])

    @classmethod
    def plan(cls, q: Query[Reorder]) -> Plan:
        x, y = planes(q.inputs[0]), q.outputs[0]
        fields_, tickets = _fields(q, x)
        pitches = {"in_n": x.n, "in_c": x.c, "out_n": y.all_pitches[0], "out_c": y.all_pitches[1]}
        desc = UnblockBytesDesc(inp=x.at("in0"), out=Ref("out0", y.origin), **pitches, **fields_)
        return Plan((Tile("unblock_bytes", desc, tickets),))
