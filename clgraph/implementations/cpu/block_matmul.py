"""Products with weights of 2, 4 or 8 bits on CPU devices: each weight is read once, as it lies in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.core.memo import remembered
from clgraph.errors import UnsupportedError
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import (
    TicketRanges,
    runs,
    split,
    step_seconds,
    stream_seconds,
    ticket_seconds,
    worker_flops,
)
from clgraph.implementations.cpu.geometry import LANES, post_refusal
from clgraph.implementations.cpu.matmul import widest_instance
from clgraph.implementations.cpu.rows import Axis, broadcast_pitches, merge
from clgraph.ops.block_matmul import BlockMatMul, rows_of
from clgraph.ops.block_records import COLUMNS
from clgraph.selector.descriptor import Descriptor, Int, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import DIGITS, Implementation, implements
from clgraph.selector.library import Micro, micro_family
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import post_codes, post_steps
from clgraph.selector.query import Query

_WIDTHS = (4, 8, 2)
"""Bits of a weight, in the order of the instances."""

_DIRECT = {16: {1: 4, 2: 4, 4: 4, 8: 2}, 8: {1: 2, 2: 1, 4: 1}}
"""Vectors of 16 columns by the rows that read weights as they lie in memory, by the floats in a vector."""

_MANY_DIRECT = 8
"""Rows for which it costs little to make floats of the same weights again for the next ones."""

_TOGETHER = {3: 4, 1: 8}
"""Rows that are multiplied by weights in bytes at a time, by digits: what the registers hold beside 32 columns."""

_MANY = {3: 4, 1: 6}
"""Rows from which on they are multiplied together in less time than one by one, by digits."""

_STRIP = 128
"""Rows whose sums lie in scratch, as in ``block_matmul_digits.cl``."""


def _micro(bits: int, digits: int) -> Micro:
    return Micro.of("block_matmul/micro_digits.cl", BITS=bits, DIGITS=digits)


def _rows_micro(digits: int) -> Micro:
    return Micro.of("block_matmul/micro_digit_rows.cl", DIGITS=digits, UR=_TOGETHER[digits])


def _paired_micro(digits: int) -> Micro:
    return Micro.of("block_matmul/micro_digit_pairs.cl", DIGITS=digits)


ROW_MICROS = micro_family(
    "micro_block_row",
    {
        simd: [
            Micro.of("block_matmul/micro_block_row.cl", BITS=bits, UR=rows, NB=nb)
            for bits in _WIDTHS
            for rows, nb in blocks.items()
        ]
        for simd, blocks in _DIRECT.items()
    },
)

_PAIRS = [_paired_micro(digits) for digits in _TOGETHER]

MICROS = micro_family(
    "micro_digits",
    {16: [*(_micro(bits, digits) for bits in _WIDTHS for digits in _TOGETHER), *_PAIRS], 8: _PAIRS},
)

MANY_MICROS = micro_family(
    "micro_digit_rows",
    # Narrow devices have the function, and do not call it.
    {16: [_rows_micro(digits) for digits in _TOGETHER], 8: [_rows_micro(1)]},
)

_PANEL = 64
"""Rows of a group of weights that are floats at a time, or a block: a part of the cache next to the core."""

SERVES = replace(TILE, dtypes=frozenset({DType.F32, DType.U8}), mixed=True, formats=False, halos=False)


@descriptor("block_digits")
class BlockDigitsDesc(Descriptor):
    """Fields as in ``block_digits.cl``."""

    x: Pointer
    digits: Pointer
    sums: Pointer
    scales: Pointer
    rows: Int
    pitch: Int
    depth: Int
    block: Int
    count: Int
    factor: Int
    ticket_rows: Int


@descriptor("block_matmul_digits", micros=("micro_digits", "micro_digit_rows"))
class BlockMatMulDigitsDesc(Descriptor):
    """Fields as in ``block_matmul_digits.cl``."""

    digits: Pointer
    sums: Pointer
    scales: Pointer
    records: Pointer
    c: Pointer
    group: Int
    count: Int
    rows: Int
    pitch: Int
    columns: Int
    blocks: Int
    block: Int
    pieces: Int
    zeros: Int
    bits: Int
    groups: Int
    ticket_groups: Int
    tiers: Int
    ticket_rows: Int
    spans: Int
    many: Int
    row_id: Int
    rows_id: Int


@descriptor("block_matmul_rows", micros=("micro_block_row", "micro_matmul"))
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


def _refusal(q: Query[BlockMatMul]) -> str | None:
    """Say why no tile serves *q*, or return ``None``."""
    if any(x.dtype != DType.F32 for i, x in enumerate((*q.inputs, *q.outputs)) if i != 1):
        return "serves float32 beside the weights"
    if not all(x.is_dense_plain for x in (*q.own[:2], q.outputs[0])):
        return "serves dense plain tensors"
    if rows_of(q) * max(q.primitive.columns, 4 * q.primitive.depth) >= 1 << 31 or q.inputs[1].nbytes >= 1 << 33:
        return "counts elements in 32 bits"
    try:
        _posts(q)
    except UnsupportedError as error:
        return str(error)
    return post_refusal(q)


@remembered
def _posts(q: Query[BlockMatMul]) -> tuple[PostStep, ...]:
    """Return the list, a bias as its first addition; row and 16-column vector are y and x.

    Raises:
        UnsupportedError: An operand does not move evenly along the rows.
    """
    y = q.outputs[0]
    found = []
    for slot in (*range(2, q.arity), *q.post_slots):
        own = broadcast_pitches(q.inputs[slot], y.rank)
        rows = merge([Axis(size, (a, b)) for size, a, b in zip(y.shape, y.all_pitches, own, strict=True)][:-1])
        if len(rows) > 1:
            raise UnsupportedError("requires operands that move evenly along the rows")
        found.append((0, 0, rows[0].pitches[1] if rows else 0, LANES * own[-1], own[-1]))
    bias = [
        PostStep(post_codes()["add"], operand=Ref("in2", 4 * q.inputs[2].origin), pitches=found.pop(0))
        for _ in range(2, q.arity)
    ]
    pitches = iter(found)
    return (*bias, *post_steps(q, lambda layout: next(pitches)))


def _tickets(q: Query[BlockMatMul], seconds: float) -> tuple[TicketRanges, TicketRanges]:
    """Return the runs of rows and of column groups, for *seconds* a row of a group."""
    rows, groups = rows_of(q), -(-q.primitive.columns // COLUMNS)
    wanted = ticket_seconds(seconds * rows * groups, q.device)
    if groups >= 4 * q.device.workers or seconds * rows <= wanted:
        return TicketRanges(1, rows), split(groups, seconds * rows, wanted, q.device.workers)
    quads = split(-(-rows // 4), 4 * seconds, wanted, q.device.workers)
    each = min(rows, 4 * quads.each)
    return TicketRanges(-(-rows // each), each), TicketRanges(groups, 1)


def digits_of(q: Query[BlockMatMul]) -> int:
    """Return the bytes that a number of a becomes."""
    return 1 if q.primitive.rough else 3


@implements(
    BlockMatMul, name="block_matmul.digits", serves=replace(SERVES, features=frozenset({"vnni"})), tags={DIGITS}
)
class BlockMatMulDigits(Implementation[BlockMatMul]):
    """The rows as fixed-point numbers of three bytes a block (of one where the model allows it), products of bytes."""

    @classmethod
    def many(cls, q: Query[BlockMatMul]) -> int:
        """Return the rows of a ticket from which on they are computed together; 0: never."""
        return _MANY[digits_of(q)]

    @classmethod
    def micro(cls, q: Query[BlockMatMul]) -> Micro:
        """Return the instance for one row."""
        return _micro(q.primitive.bits, digits_of(q))

    @classmethod
    def row_seconds(cls, q: Query[BlockMatMul]) -> float:
        """Return one worker's time for a row of a group of columns."""
        unit = q.device.costs.unit
        return q.primitive.depth * (unit("block_matmul.weights") + digits_of(q) * unit("block_matmul.digit"))

    @classmethod
    def limits(cls, q: Query[BlockMatMul]) -> str | None:
        if q.primitive.block % LANES:
            return f"requires blocks of whole vectors of {LANES}, not of {q.primitive.block}"
        if q.primitive.block > 256:
            return "adds up blocks of at most 256 in 32 bits"
        return _refusal(q)

    @classmethod
    def cost(cls, q: Query[BlockMatMul]) -> float:
        each = cls.row_seconds(q)
        rows, groups, (spans, tiers) = rows_of(q), -(-q.primitive.columns // COLUMNS), _tickets(q, each)
        first = runs(rows, _row_digits(q), q.device)
        digits = step_seconds(q.device, rows * _row_digits(q), 2 * q.inputs[0].nbytes, first.count)
        work, traffic = rows * groups * each, q.inputs[0].nbytes + q.outputs[0].nbytes
        tickets = spans.count * tiers.count
        return digits + stream_seconds(q.device, work, traffic, tickets, q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[BlockMatMul]) -> Plan:
        p, rows, count = q.primitive, rows_of(q), digits_of(q)
        groups, blocks, nbytes = q.inputs[1].shape
        spans, tiers = _tickets(q, cls.row_seconds(q))
        first = runs(rows, _row_digits(q), q.device)
        many, together = cls.many(q), _TOGETHER[count] if cls.many(q) else 1
        pitch = -(-rows // together) * together
        digits = BlockDigitsDesc(
            x=Ref("in0"),
            digits=Ref("scratch0"),
            sums=Ref("scratch1"),
            scales=Ref("scratch2"),
            rows=rows,
            pitch=pitch,
            depth=p.depth,
            block=p.block,
            count=count,
            factor=-1 if p.zeros else -p.records.middle,
            ticket_rows=first.each,
        )
        product = BlockMatMulDigitsDesc(
            digits=Ref("scratch0"),
            sums=Ref("scratch1"),
            scales=Ref("scratch2"),
            records=Ref("in1"),
            c=Ref("out0"),
            group=blocks * nbytes // 4,
            count=count,
            rows=rows,
            pitch=pitch,
            columns=p.columns,
            blocks=blocks,
            block=p.block,
            pieces=p.records.pieces,
            zeros=int(p.zeros),
            bits=p.bits,
            groups=groups,
            ticket_groups=tiers.each,
            tiers=tiers.count,
            ticket_rows=spans.each,
            spans=spans.count,
            many=many,
            row_id=MICROS.id(q.device.simd, cls.micro(q)),
            rows_id=MANY_MICROS.id(q.device.simd, _rows_micro(count)) if many else 0,
        )
        # The sums of a strip, of as many rows as are computed, and a block's weights.
        scratch = 128 * (_STRIP + 8 + p.block // 4) if many and rows >= many else 0
        steps = (
            Tile("block_digits", digits, first.count),
            Tile("block_matmul_digits", product, spans.count * tiers.count, scratch=scratch, post=_posts(q)),
        )
        return Plan(steps, (pitch * blocks * p.block * count, 4 * pitch * blocks * count, 4 * pitch * blocks))


@implements(
    BlockMatMul, name="block_matmul.pairs", serves=replace(SERVES, features=frozenset({"byte_pairs"})), tags={DIGITS}
)
class BlockMatMulPairs(BlockMatMulDigits):
    """As with digits elsewhere, on CPUs that add up two neighbours' products of bytes in 16 bits."""

    @classmethod
    def limits(cls, q: Query[BlockMatMul]) -> str | None:
        if q.primitive.bits != 4:
            return f"adds up products of bytes and 4 bits in 16, not of {q.primitive.bits}"
        return super().limits(q)

    @classmethod
    def many(cls, q: Query[BlockMatMul]) -> int:
        return 0

    @classmethod
    def micro(cls, q: Query[BlockMatMul]) -> Micro:
        return _paired_micro(digits_of(q))

    @classmethod
    def row_seconds(cls, q: Query[BlockMatMul]) -> float:
        unit = q.device.costs.unit
        return q.primitive.depth * (unit("block_matmul.paired_weights") + digits_of(q) * unit("block_matmul.pair"))


def _row_digits(q: Query[BlockMatMul]) -> float:
    """Return one worker's time for the digits of a row."""
    return -(-q.primitive.depth // LANES) * q.device.costs.unit("block_digits.vector")


def _most(q: Query[BlockMatMul]) -> int:
    """Return the rows of the largest block that reads weights as they lie in memory, 0 where they become a panel.

    A panel is made once for all rows, a weight in a register for those of a block: where a block holds few rows,
    many rows are faster by panels.
    """
    rows, most = rows_of(q), max(_direct(q))
    if rows == 1:
        return 1
    return most if q.primitive.depth % q.primitive.block == 0 and (most == _MANY_DIRECT or rows <= most) else 0


def _direct(q: Query[BlockMatMul]) -> Mapping[int, int]:
    return _DIRECT[16 if q.device.simd >= 16 else 8]


def _float_seconds(q: Query[BlockMatMul]) -> float:
    """Return one worker's time for a row of a group of columns, in float."""
    depth, rows, device = q.primitive.depth, rows_of(q), q.device
    if rows == 1:
        return depth * device.costs.unit("block_matmul.float")
    weights = depth * device.costs.unit("block_matmul.panel")
    widest, most = widest_instance(device), _most(q)
    count = min(widest.rows, rows)
    tap = half_cycles(widest.nb, count) / count * (COLUMNS // LANES // widest.nb) * 2 * LANES / worker_flops(device)
    return depth * tap + weights / (min(rows, most) if most else rows)


@implements(BlockMatMul, name="block_matmul.rows", serves=SERVES)
class BlockMatMulRows(Implementation[BlockMatMul]):
    """In float: few rows by the weights as they lie in memory, more by floats made of them a group at a time."""

    @classmethod
    def limits(cls, q: Query[BlockMatMul]) -> str | None:
        return _refusal(q)

    @classmethod
    def cost(cls, q: Query[BlockMatMul]) -> float:
        rows, groups, (spans, tiers) = rows_of(q), q.inputs[1].shape[0], _tickets(q, _float_seconds(q))
        work, traffic = rows * groups * _float_seconds(q), q.inputs[0].nbytes + q.outputs[0].nbytes
        return stream_seconds(q.device, work, traffic, spans.count * tiers.count, q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[BlockMatMul]) -> Plan:
        p, rows, widest = q.primitive, rows_of(q), widest_instance(q.device)
        groups, blocks, nbytes = q.inputs[1].shape
        spans, tiers = _tickets(q, _float_seconds(q))
        most, panel = _most(q), max(p.block, _PANEL)
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
            row_id=_WIDTHS.index(p.bits) * len(_direct(q)),
            most=most,
            panel=panel,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
        )
        scratch = 4 * (blocks * p.block if most else COLUMNS * panel)
        return Plan((Tile("block_matmul_rows", desc, spans.count * tiers.count, scratch=scratch, post=_posts(q)),))
