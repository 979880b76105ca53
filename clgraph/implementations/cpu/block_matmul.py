"""Products with weights of 2, 4 or 8 bits on CPU devices, in float: each weight is read once, as it lies in memory."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.implementations.cpu.block_tiles import SERVES, WIDTHS, block_posts, block_tickets, tiles_refusal
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import stream_seconds, worker_flops
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import widest_instance
from clgraph.ops.block_matmul import BlockMatMul, rows_of
from clgraph.ops.block_records import COLUMNS
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_DIRECT = {16: {1: 4, 2: 4, 4: 4, 8: 2}, 8: {1: 2, 2: 1, 4: 1}}
"""Vectors of 16 columns by the rows that read weights as they lie in memory, by the floats in a vector."""

_PANEL_ROWS = {8: 32, 4: 5}
"""Rows from which on weights become floats once, by the rows that read them as they lie in memory at a time."""

ROW_MICROS = micro_family(
    "micro_block_row",
    {
        simd: [
            Micro.of("block_matmul/micro_block_row.cl", BITS=bits, UR=rows, NB=nb)
            for bits in WIDTHS
            for rows, nb in blocks.items()
        ]
        for simd, blocks in _DIRECT.items()
    },
)

_PANEL = 1024
"""Most rows of a group of weights that are floats at a time: 256 KB, a part of the second-level cache."""


@descriptor("block_matmul_rows", library="blocks", micros=("micro_block_row", "micro_matmul"))
class BlockMatMulRowsDesc(Descriptor):
    """Fields as in ``block_matmul_rows.cl``."""

    a: Pointer
    records: Pointer
    c: Pointer
    group: Int
    rows: Int
    columns: Int
    depth: Int
    block: Int
    blocks: Int
    pieces: Int
    bits: Int
    zeros: Int
    groups: Int
    ticket_groups: Int
    tiers: Int
    ticket_rows: Int
    spans: Int
    row_id: Int
    most: Int
    panel: Int
    nb: Int
    widest: Int
    first_id: Int


def _most(q: Query[BlockMatMul]) -> int:
    """Return the rows of the largest block that reads weights as they lie in memory, 0 where they become a panel.

    A panel is made once for all rows, a weight in a register for those of a block.
    """
    rows, most = rows_of(q), max(_direct(q))
    if rows == 1:
        return 1
    return most if q.primitive.depth % q.primitive.block == 0 and rows < _PANEL_ROWS[most] else 0


def _direct(q: Query[BlockMatMul]) -> Mapping[int, int]:
    return _DIRECT[16 if q.device.simd >= 16 else 8]


def _float_seconds(q: Query[BlockMatMul]) -> float:
    """Return one worker's time for a row of a group of columns, in float."""
    depth, rows, device = q.primitive.depth, rows_of(q), q.device
    if rows == 1:
        return depth * device.costs.unit("block_matmul.float")
    widest, most = widest_instance(device), _most(q)
    unit = device.costs.unit
    weights = depth * (unit("block_matmul.direct") if most else unit("block_matmul.panel"))
    count = min(widest.rows, rows)
    tap = half_cycles(widest.nb, count) / count * (COLUMNS // LANES // widest.nb) * 2 * LANES / worker_flops(device)
    return depth * tap + weights / (min(rows, most) if most else rows)


@implements(BlockMatMul, name="block_matmul.rows", serves=SERVES)
class BlockMatMulRows(Implementation[BlockMatMul]):
    """In float: few rows by the weights as they lie in memory, more by floats made of them a group at a time."""

    @classmethod
    def limits(cls, q: Query[BlockMatMul]) -> str | None:
        return tiles_refusal(q)

    @classmethod
    def cost(cls, q: Query[BlockMatMul]) -> float:
        rows, groups, (spans, tiers) = rows_of(q), q.inputs[1].shape[0], block_tickets(q, _float_seconds(q))
        work, traffic = rows * groups * _float_seconds(q), q.inputs[0].nbytes + q.outputs[0].nbytes
        return stream_seconds(q.device, work, traffic, spans.count * tiers.count, q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[BlockMatMul]) -> Plan:
        p, rows, widest = q.primitive, rows_of(q), widest_instance(q.device)
        groups, blocks, nbytes = q.inputs[1].shape
        spans, tiers = block_tickets(q, _float_seconds(q))
        most, panel = _most(q), min(blocks * p.block, _PANEL)
        desc = BlockMatMulRowsDesc(
            a=Ref("in0", 4 * q.inputs[0].origin),
            records=Ref("in1"),
            c=Ref("out0"),
            group=blocks * nbytes // 4,
            rows=rows,
            columns=p.columns,
            depth=p.depth,
            block=p.block,
            blocks=blocks,
            pieces=p.records.pieces,
            bits=p.bits,
            zeros=int(p.zeros),
            groups=groups,
            ticket_groups=tiers.each,
            tiers=tiers.count,
            ticket_rows=spans.each,
            spans=spans.count,
            row_id=WIDTHS.index(p.bits) * len(_direct(q)),
            most=most,
            panel=panel,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
        )
        scratch = 4 * (blocks * p.block if most else COLUMNS * panel)
        return Plan((Tile("block_matmul_rows", desc, spans.count * tiers.count, scratch=scratch, post=block_posts(q)),))
