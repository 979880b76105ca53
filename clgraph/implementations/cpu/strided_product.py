"""Products of plain matrices as drivers walk them on CPU devices: sizes, and pitches along each axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.errors import UnsupportedError
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import GROUP
from clgraph.implementations.cpu.rows import Axis, broadcast_pitches, merge
from clgraph.ops.matmul import MatMul
from clgraph.selector.descriptor import PostStep, Ref
from clgraph.selector.post import post_codes, post_steps
from clgraph.selector.query import Query

FEW_COLUMNS, LONG_COLUMNS = 4, 128
"""Most columns, and the fewest floats of one, that are multiplied one by one. Measured: of 2 columns, 512 rows of 512
floats take a fifth of the time that a block of 32 columns does."""


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


def is_dots(q: Query[MatMul], p: StridedProduct) -> bool:
    """Whether each element is a sum over two runs of floats: the right side is one column that lies in one piece.

    So are few long ones, copied to where each does; of short ones the lanes of a vector take longer to add up.
    """
    if p.a_step != 1 or q.inputs[1].format.blocks:
        return False
    return (p.columns == 1 and p.b_row == 1) or (p.columns <= FEW_COLUMNS and p.depth >= LONG_COLUMNS)


def columns_copied(p: StridedProduct) -> int:
    """Return how many floats a ticket of dots copies."""
    return 0 if p.b_row == 1 else p.columns * p.depth


def packed_format(q: Query[MatMul]) -> Format:
    """Return [..., n / 64][k][64] for the right side, whichever way it is stored."""
    return _packed_format(q.inputs[1].rank, q.primitive.transpose_b)


@cache
def _packed_format(rank: int, transposed: bool) -> Format:
    column = rank - 2 if transposed else rank - 1
    row = 2 * rank - 3 - column
    return Format((*range(rank - 2), column, row), ((column, GROUP),))


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
