"""Products of plain matrices on CPU devices: constant right sides packed beforehand, others read in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered
from clgraph.errors import UnsupportedError
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import TicketRanges, split, step_seconds, ticket_seconds, worker_flops
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.rows import Axis, broadcast_pitches, merge
from clgraph.ops.matmul import MatMul
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.library import Micro, micro_family
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import post_codes, post_steps
from clgraph.selector.query import DeviceInfo, Query

GROUP = 64
"""Columns of a packed group."""

_LANES_SUMMED = 256
"""Operations of full vectors in whose time the lanes of one are added up."""

_FILE = "matmul/micro_matmul.cl"
_SHAPES = {16: (4, 6), 8: (1, 6)}
"""Vectors of 16 columns and most rows of an instance, by SIMD width."""

NARROW_ROWS = 6
_NARROW = Micro.of(_FILE, NB=2, UR=NARROW_ROWS)
"""What computes at most 32 columns where the others compute 64."""
_TALL = Micro.of(_FILE, NB=2, UR=2 * NARROW_ROWS)
"""The same, of twice the rows."""

MICROS = micro_family(
    "micro_matmul",
    {
        simd: [Micro.of(_FILE, NB=nb, UR=ur) for ur in range(1, most + 1)] + [_NARROW, _TALL] * (nb > 2)
        for simd, (nb, most) in _SHAPES.items()
    },
)


@frozen
class Widest:
    """The largest instance of a device: vectors of 16 columns, rows; the id of the one with one row.

    Attributes:
        narrow_id: Of the instance of 6 rows and 32 columns; -1 where the largest is no wider.
    """

    nb: int
    rows: int
    first_id: int
    narrow_id: int


def widest_instance(device: DeviceInfo) -> Widest:
    """Return the instance that products of many rows use; those with fewer rows are its neighbours."""
    nb, rows = _SHAPES[16 if device.simd >= 16 else 8]
    narrow = MICROS.id(device.simd, _NARROW) if nb > 2 else -1
    return Widest(nb, rows, MICROS.id(device.simd, Micro.of(_FILE, NB=nb, UR=1)), narrow)


AHEAD = 2048
"""Floats that a product with one row fetches ahead: about what memory delivers in its latency."""


CACHED = 1 << 19
"""Bytes of a right side that the second-level cache may still hold from the run before."""


PART_ROWS = 24
"""Fewest rows of a part. Measured on two cores with second-level caches of their own: products of 48 rows and more take
0.8-1.0 of the time that runs of columns a worker take, of 512 rows 0.7-1.0, of 12 rows 1.1-1.2."""


@descriptor("matmul_rows", micros=("micro_matmul",), any_alignment=True)
class MatMulRowsDesc(Descriptor):
    """Fields as in ``matmul_rows.cl``."""

    a: Pointer
    b: Pointer
    c: Pointer
    a_batch: Long
    b_batch: Long
    a_outer: Long
    b_outer: Long
    b_group: Long
    c_batch: Long
    inner: Int
    a_row: Int
    a_step: Int
    b_row: Int
    b_column: Int
    packed: Int
    c_row: Int
    rows: Int
    columns: Int
    depth: Int
    groups: Int
    ticket_groups: Int
    tiers: Int
    parts: Int
    part_rows: Int
    ticket_rows: Int
    spans: Int
    nb: Int
    widest: Int
    first_id: Int
    narrow_id: Int
    ahead: Int
    fetched: Int
    dots: Int

    @property
    def reads_in_place(self) -> bool:
        """Whether b is read once.

        A b that every block of rows reads is sooner copied to where vectors begin with lines of the cache: 512 rows by
        such a one take 1.4 times as long where the caller has it.
        """
        return bool(self.dots) or (not self.packed and self.rows <= self.widest)


@frozen
class StridedProduct:
    """A product in the driver's terms.

    Attributes:
        outer, batch, rows: Axes with pitches of a, b, c and of each operand in turn; b does not move along the rows.
        a_step, b_row, b_column: Floats from one column of a, row and column of b to the next.
        operands: Slot of ``q.inputs`` and pitch along the last axis of each operand.
    """

    outer: Axis
    batch: Axis
    rows: Axis
    columns: int
    depth: int
    a_step: int
    b_row: int
    b_column: int
    operands: tuple[tuple[int, int], ...]

    @property
    def matrices(self) -> int:
        """Return the products of one batch element."""
        return self.outer.size * self.batch.size


def strided_product(q: Query[MatMul]) -> StridedProduct:
    """Return the problem; raises ``UnsupportedError`` when it is none with one batch axis."""
    p = nested_product(q)
    if p.outer.size > 1:
        raise UnsupportedError("walks one batch axis, and these tensors need more")
    return p


@remembered
def nested_product(q: Query[MatMul]) -> StridedProduct:
    """Return the problem; raises ``UnsupportedError`` when it is none with at most two batch axes."""
    a, b, c, p = *q.inputs[:2], q.outputs[0], q.primitive
    batches, m, k, n = p.sizes(a.shape, b.shape)
    rank = len(batches) + 2
    b = b if b.format.is_plain else b.plain()
    row, column = a.rank > 1, b.rank > 1

    def wide(pitches: tuple[int, ...]) -> tuple[int, ...]:
        """Return pitches of c, in which vectors leave no axis, as ones of batches, rows and columns."""
        return (
            *pitches[: len(batches)],
            *(pitches[len(batches) :][:1] if row else (0,)),
            *(pitches[-1:] if column else (0,)),
        )

    a_pitch, c_pitch = broadcast_pitches(a, rank), wide(c.all_pitches)
    b_pitch = broadcast_pitches(b, rank) if column else (*broadcast_pitches(b, rank - 1), 0)
    a_row, a_step = (a_pitch[-1], a_pitch[-2]) if p.transpose_a and row else (a_pitch[-2], a_pitch[-1])
    b_row, b_column = (b_pitch[-1], b_pitch[-2]) if p.transpose_b and column else (b_pitch[-2], b_pitch[-1])
    slots = [*range(2, q.arity), *q.post_slots]
    operands = [wide(broadcast_pitches(q.inputs[s], c.rank)) for s in slots]
    axes = [
        Axis(size, (a_pitch[i], b_pitch[i], c_pitch[i], *(o[i] for o in operands))) for i, size in enumerate(batches)
    ]
    merged = merge([*axes, Axis(m, (a_row, 0, c_pitch[-2], *(o[-2] for o in operands)))])
    still = Axis(1, (0,) * (3 + len(operands)))
    rows = merged.pop() if merged and merged[-1].pitches[1] == 0 else still
    if len(merged) > 2:
        raise UnsupportedError("walks two batch axes, and these tensors need more")
    outer, batch = (still, still, *merged)[-2:]
    last = tuple(zip(slots, (o[-1] for o in operands), strict=True))
    return StridedProduct(outer, batch, rows, n, k, a_step, b_row, b_column, last)


def _is_dots(q: Query[MatMul], p: StridedProduct) -> bool:
    """Whether each element is a sum over two runs of floats: the right side is one column that lies in one piece."""
    return p.columns == 1 and p.a_step == 1 and p.b_row == 1 and not q.inputs[1].format.blocks


def packed_format(q: Query[MatMul]) -> Format:
    """Return [..., n / 64][k][64] for the right side, whichever way it is stored."""
    rank = q.inputs[1].rank
    column = rank - 2 if q.primitive.transpose_b else rank - 1
    row = 2 * rank - 3 - column
    return Format((*range(rank - 2), column, row), ((column, GROUP),))


@frozen
class MatMulTickets:
    """Runs of the rows of each part, and of column groups; parts of the rows."""

    rows: TicketRanges
    groups: TicketRanges
    parts: TicketRanges


def row_seconds(q: Query[MatMul], p: StridedProduct) -> float:
    """Return one worker's time for one row of one group of columns."""
    if _is_dots(q, p):
        return (4 * p.depth + _LANES_SUMMED) / worker_flops(q.device)
    nb, most = _SHAPES[16 if q.device.simd >= 16 else 8]
    count = min(most, p.rows.size)
    return p.depth * half_cycles(nb, count) / count * (GROUP // LANES // nb) * 2 * LANES / worker_flops(q.device)


def _groups_computed(q: Query[MatMul], p: StridedProduct) -> float:
    """Return how many groups of columns are computed; of a last one of at most 32 columns that may be half of it."""
    whole, rest = divmod(p.columns, GROUP)
    narrow = rest <= GROUP // 2 and p.rows.size >= NARROW_ROWS and widest_instance(q.device).narrow_id >= 0
    return whole + (0.5 if narrow else 1.0) * (rest > 0)


def row_parts(q: Query[MatMul], p: StridedProduct) -> TicketRanges:
    """Cut the rows into parts, one a worker where they are many; tickets of a part are computed by the same worker.

    It finds in its own cache what it wrote of a chain of products. Lines that another core wrote take 30-40 ns each;
    against them stands the right side, which every worker reads.
    """
    parts = min(q.device.workers, p.rows.size // PART_ROWS)
    if parts < 2 or p.matrices % q.device.workers == 0:
        parts = 1
    return TicketRanges(parts, -(-p.rows.size // parts))


def matmul_tickets(q: Query[MatMul], p: StridedProduct, parts: TicketRanges) -> MatMulTickets:
    """Return how each of *parts* of the rows is cut into tickets."""
    groups, row = -(-p.columns // GROUP), row_seconds(q, p)
    wanted = ticket_seconds(row * p.rows.size * groups * p.matrices, q.device)
    most, sharing = widest_instance(q.device).rows, -(-q.device.workers // parts.count)
    if groups >= 4 * sharing or row * parts.each <= wanted:
        return MatMulTickets(TicketRanges(1, parts.each), split(groups, row * parts.each, wanted, sharing), parts)
    runs = split(-(-parts.each // most), row * most, wanted, sharing)
    rows = runs.each * most
    return MatMulTickets(TicketRanges(-(-parts.each // rows), rows), TicketRanges(groups, 1), parts)


def matmul_limits(q: Query[MatMul], walked: Callable[[Query[MatMul]], StridedProduct] = strided_product) -> str | None:
    """Say why the drivers cannot walk the tensors of *q* as the product *walked*, or return ``None``."""
    a, b, c = *q.inputs[:2], q.outputs[0]
    packed = packed_format(q) if b.rank > 1 else None
    if not a.format.is_plain or not c.is_dense_plain:
        return f"multiplies plain tensors into a dense one, not {a} into {c}"
    if not b.format.is_plain and b.format != packed:
        return f"requires the right side plain or in {packed}, not {b.format}"
    if 1 in q.constant and b.rank > 4:
        return "packs right sides of at most four axes"
    if odd := [q.inputs[s] for s in range(2, len(q.inputs)) if q.inputs[s].format.blocks]:
        return f"reads bias and operands in plain formats, not {odd[0]}"
    if any(f.operation is None or len(f.operands) > 1 for f in q.post):
        return "applies operations that have a post-operation code"
    try:
        walked(q)
    except UnsupportedError as error:
        return str(error)
    return None


@implements(MatMul, name="matmul.rows", serves=replace(TILE, halos=False))
class MatMulRows(Implementation[MatMul]):
    """Row-major matrices in register blocks of 6 rows by 64 columns (16 on narrow devices)."""

    @classmethod
    def limits(cls, q: Query[MatMul]) -> str | None:
        return matmul_limits(q, nested_product)

    @classmethod
    def weights(cls, q: Query[MatMul]) -> Mapping[int, Format]:
        if 1 not in q.constant or _is_dots(q, nested_product(q)):
            return {}
        return {1: packed_format(q)} if q.inputs[1].rank > 1 else {}

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        p = nested_product(q)
        t = matmul_tickets(q, p, row_parts(q, p))
        work = row_seconds(q, p) * p.rows.size * _groups_computed(q, p) * p.matrices
        traffic = q.inputs[0].nbytes + q.outputs[0].nbytes
        tickets = t.parts.count * t.rows.count * t.groups.count * p.matrices
        return step_seconds(q.device, work, traffic, tickets, weights=q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        p = nested_product(q)
        b, t, widest = q.inputs[1], matmul_tickets(q, p, row_parts(q, p)), widest_instance(q.device)
        packed = bool(b.format.blocks)
        b_batch, b_outer = _packed_pitches(b, p) if packed else (p.batch.pitches[1], p.outer.pitches[1])
        desc = MatMulRowsDesc(
            a=Ref("in0", 4 * q.inputs[0].origin),
            b=Ref("in1", 0 if packed else 4 * b.origin),
            c=Ref("out0"),
            a_batch=p.batch.pitches[0],
            b_batch=b_batch,
            a_outer=p.outer.pitches[0],
            b_outer=b_outer,
            b_group=p.depth * GROUP if packed else GROUP * p.b_column,
            c_batch=p.batch.pitches[2],
            inner=p.batch.size,
            a_row=p.rows.pitches[0],
            a_step=p.a_step,
            b_row=p.b_row,
            b_column=p.b_column,
            packed=int(packed),
            c_row=p.rows.pitches[2],
            rows=p.rows.size,
            columns=p.columns,
            depth=p.depth,
            groups=-(-p.columns // GROUP),
            ticket_groups=t.groups.each,
            tiers=t.groups.count,
            parts=t.parts.count,
            part_rows=t.parts.each,
            ticket_rows=t.rows.each,
            spans=t.rows.count,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            narrow_id=widest.narrow_id,
            ahead=AHEAD if packed and p.rows.size == 1 else 0,
            fetched=_fetched(t.rows.each, p, widest) if packed and b.nbytes > CACHED else 0,
            dots=int(_is_dots(q, p)),
        )
        staged = not packed and (p.columns % GROUP or p.b_column != 1)
        scratch = -(-p.depth // LANES) * LANES * GROUP * 4 if staged else 0
        tickets = t.parts.count * t.rows.count * t.groups.count * p.matrices
        return Plan((Tile("matmul_rows", desc, tickets, scratch=scratch, post=matmul_posts(q, p)),))


def _packed_pitches(b: Layout, p: StridedProduct) -> tuple[int, int]:
    """Return the floats from one packed matrix of *b* to the next along the batch axis and the outer one."""
    inner, outer = (axis.size if axis.pitches[1] else 1 for axis in (p.batch, p.outer))
    each = b.span // (inner * outer)
    return each * (inner > 1), each * inner * (outer > 1)


def _fetched(rows: int, p: StridedProduct, widest: Widest) -> int:
    """Return how many floats of the next group each step of a product fetches, so that it is there in time.

    A group is read over and over, by each block of rows; its first reader would wait for memory.
    """
    blocks = -(-rows // widest.rows) * (GROUP // LANES // widest.nb)
    return min(-(-GROUP // blocks), 2 * LANES) if rows > 1 else 0


def matmul_posts(q: Query[MatMul], p: StridedProduct) -> tuple[PostStep, ...]:
    """Return the list, a bias as its first addition; outer and inner batch, row and 16-column vector are n, f, y, x."""
    pitches = {
        slot: (p.outer.pitches[3 + i], p.batch.pitches[3 + i], p.rows.pitches[3 + i], LANES * last, last)
        for i, (slot, last) in enumerate(p.operands)
    }
    bias = [
        PostStep(post_codes()["add"], operand=Ref(f"in{s}", 4 * q.inputs[s].origin), pitches=pitches[s])
        for s in range(2, q.arity)
    ]
    slots = iter(q.post_slots)
    return (*bias, *post_steps(q, lambda layout: pitches[next(slots)]))
