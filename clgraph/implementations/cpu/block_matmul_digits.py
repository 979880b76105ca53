"""Products with weights of 2, 4 or 8 bits on CPU devices, from bytes: rows become digits, each weight is read once."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from clgraph.implementations.cpu.block_tiles import SERVES, WIDTHS, block_posts, block_tickets, tiles_refusal
from clgraph.implementations.cpu.cost import runs, step_seconds, stream_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.block_matmul import BlockMatMul, rows_of
from clgraph.ops.block_records import COLUMNS
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import DIGITS, Implementation, implements
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_TOGETHER = {(3, 3): 3, (3, 1): 4, (1, 1): 4}
"""Rows that are multiplied by weights in bytes at a time, by digits and sums: what registers hold beside 64 columns."""

_MANY = {3: 5, 1: 6}
"""Rows from which on they are multiplied together in less time than one by one, by digits."""

_LARGEST = 8355000
"""What the largest number of a block is in digits, as in ``block_digits.cl``."""

_WHOLE_BITS = 4
"""The width of weights whose blocks may be summed up in one part: of 2 bits, the rarest, none are."""

_STRIP = 132
"""Rows whose sums lie in scratch, as in ``block_matmul_digits.cl``."""


def _micro(bits: int, digits: int, parts: int) -> Micro:
    return Micro.of("block_matmul/micro_digits.cl", BITS=bits, DIGITS=digits, PARTS=parts)


def _rows_micro(digits: int, parts: int) -> Micro:
    together = _TOGETHER[digits, parts]
    return Micro.of("block_matmul/micro_digit_rows.cl", DIGITS=digits, PARTS=parts, UR=together)


def _paired_micro(digits: int) -> Micro:
    return Micro.of("block_matmul/micro_digit_pairs.cl", DIGITS=digits)


_PAIRS = [_paired_micro(digits) for digits in (3, 1)]

_ALONE = [_micro(bits, *parts) for bits in WIDTHS for parts in _TOGETHER if bits == _WHOLE_BITS or parts != (3, 1)]

MICROS = micro_family("micro_digits", {16: [*_ALONE, *_PAIRS], 8: _PAIRS})

MANY_MICROS = micro_family(
    "micro_digit_rows",
    # Narrow devices have the function, and do not call it.
    {16: [_rows_micro(*parts) for parts in _TOGETHER], 8: [_rows_micro(1, 1)]},
)


@descriptor("block_digits", library="blocks")
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
    parts: Int
    factor: Int
    ticket_rows: Int


@descriptor("block_matmul_digits", library="blocks", micros=("micro_digits", "micro_digit_rows"))
class BlockMatMulDigitsDesc(Descriptor):
    """Fields as in ``block_matmul_digits.cl``."""

    digits: Pointer
    sums: Pointer
    scales: Pointer
    records: Pointer
    c: Pointer
    group: Int
    count: Int
    parts: Int
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


def digits_of(q: Query[BlockMatMul]) -> int:
    """Return the bytes that a number of a becomes."""
    return 1 if q.primitive.rough else 3


def _row_digits(q: Query[BlockMatMul]) -> float:
    """Return one worker's time for the digits of a row."""
    return -(-q.primitive.depth // LANES) * q.device.costs.unit("block_digits.vector")


@implements(
    BlockMatMul, name="block_matmul.digits", serves=replace(SERVES, features=frozenset({"vnni"})), tags={DIGITS}
)
class BlockMatMulDigits(Implementation[BlockMatMul]):
    """The rows as fixed-point numbers of three bytes a block (of one where the model allows it), products of bytes."""

    registers: ClassVar[int] = LANES

    @classmethod
    def many(cls, q: Query[BlockMatMul]) -> int:
        """Return the rows of a ticket from which on they are computed together; 0: never."""
        return _MANY[digits_of(q)]

    @classmethod
    def parts(cls, q: Query[BlockMatMul]) -> int:
        """Return the sums of 32 bits that hold a block of products: of each digit, or one of all."""
        p = q.primitive
        holds = p.bits == _WHOLE_BITS and not p.zeros and p.records.middle * _LARGEST * p.block < 1 << 31
        return 1 if holds else digits_of(q)

    @classmethod
    def micro(cls, q: Query[BlockMatMul]) -> Micro:
        """Return the instance for one row."""
        return _micro(q.primitive.bits, digits_of(q), cls.parts(q))

    @classmethod
    def row_seconds(cls, q: Query[BlockMatMul]) -> float:
        """Return one worker's time for a row of a group of columns."""
        unit = q.device.costs.unit
        return q.primitive.depth * (unit("block_matmul.weights") + digits_of(q) * unit("block_matmul.digit"))

    @classmethod
    def limits(cls, q: Query[BlockMatMul]) -> str | None:
        if q.device.simd < cls.registers:
            return f"requires registers of {cls.registers} floats, not of {q.device.simd}"
        if q.primitive.block % LANES:
            return f"requires blocks of whole vectors of {LANES}, not of {q.primitive.block}"
        if q.primitive.block > 256:
            return "adds up blocks of at most 256 in 32 bits"
        return tiles_refusal(q)

    @classmethod
    def cost(cls, q: Query[BlockMatMul]) -> float:
        each = cls.row_seconds(q)
        rows, groups, (spans, tiers) = rows_of(q), -(-q.primitive.columns // COLUMNS), block_tickets(q, each)
        first = runs(rows, _row_digits(q), q.device)
        digits = step_seconds(q.device, rows * _row_digits(q), 2 * q.inputs[0].nbytes, first.count)
        work, traffic = rows * groups * each, q.inputs[0].nbytes + q.outputs[0].nbytes
        tickets = spans.count * tiers.count
        return digits + stream_seconds(q.device, work, traffic, tickets, q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[BlockMatMul]) -> Plan:
        p, rows, count, parts = q.primitive, rows_of(q), digits_of(q), cls.parts(q)
        groups, blocks, nbytes = q.inputs[1].shape
        spans, tiers = block_tickets(q, cls.row_seconds(q))
        first = runs(rows, _row_digits(q), q.device)
        many, together = cls.many(q), _TOGETHER[count, parts] if cls.many(q) else 1
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
            parts=parts,
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
            parts=parts,
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
            rows_id=MANY_MICROS.id(q.device.simd, _rows_micro(count, parts)) if many else 0,
        )
        # The sums of a strip, of as many rows as are computed, and a block's weights.
        scratch = 64 * (4 * (_STRIP + 4) + p.block) if many and rows >= many else 0
        steps = (
            Tile("block_digits", digits, first.count),
            Tile("block_matmul_digits", product, spans.count * tiers.count, scratch=scratch, post=block_posts(q)),
        )
        return Plan(steps, (pitch * blocks * p.block * count, 4 * pitch * blocks * parts, 4 * pitch * blocks))


@implements(
    BlockMatMul, name="block_matmul.pairs", serves=replace(SERVES, features=frozenset({"byte_pairs"})), tags={DIGITS}
)
class BlockMatMulPairs(BlockMatMulDigits):
    """As with digits elsewhere, on CPUs that add up two neighbours' products of bytes in 16 bits."""

    registers: ClassVar[int] = 8

    @classmethod
    def limits(cls, q: Query[BlockMatMul]) -> str | None:
        if q.primitive.bits != 4:
            return f"adds up products of bytes and 4 bits in 16, not of {q.primitive.bits}"
        return super().limits(q)

    @classmethod
    def many(cls, q: Query[BlockMatMul]) -> int:
        return 0

    @classmethod
    def parts(cls, q: Query[BlockMatMul]) -> int:
        return digits_of(q)

    @classmethod
    def micro(cls, q: Query[BlockMatMul]) -> Micro:
        return _paired_micro(digits_of(q))

    @classmethod
    def row_seconds(cls, q: Query[BlockMatMul]) -> float:
        unit = q.device.costs.unit
        return q.primitive.depth * (unit("block_matmul.paired_weights") + digits_of(q) * unit("block_matmul.pair"))
