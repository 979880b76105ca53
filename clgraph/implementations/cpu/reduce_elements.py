"""Sums, means, extrema and products over axes of plain tensors of any element types on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.element_types import BYTES, DOUBLE, FLOAT, INT, LONG, RUN, RUN_BYTES, TYPES, domain_of
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.ops.reduce import CODES, Reduce
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import FUSABLE, post_steps
from clgraph.selector.query import Query

OF_FLOATS = ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square")
OF_INTEGERS = ("sum", "mean", "max", "min", "prod", "l1", "sum_square")
ROOTS = ("l2", "log_sum")
"""Of integers, as doubles rounded towards zero."""
EXTREMA = ("max", "min")
WHOLE = OF_INTEGERS + ROOTS

NARROW_FLOATS, NARROW_NUMBERS = 4, 16
"""Most elements of rows that are reduced side by side, each element of all rows in turn."""

MOST_SHORT = 256
"""Floats or doubles of rows of which sixteen are reduced at a time."""

UNIT_SECONDS = 30e-9
"""What beginning a unit takes: divisions, two switches."""


@descriptor("reduce_elements", any_alignment=True)
class ReduceElementsDesc(Descriptor):
    """Fields as in ``reduce_elements.cl``."""

    inp: Pointer
    out: Pointer
    in_outer: Long
    in_rows: Long
    in_across: Long
    in_along: Long
    in_inner: Long
    out_outer: Long
    out_rows: Long
    in_type: Int
    out_type: Int
    in_size: Int
    out_size: Int
    domain: Int
    operation: Int
    rows: Int
    across: Int
    along: Int
    inner: Int
    count: Int
    inner_runs: Int
    short_rows: Int
    units: Int
    ticket_units: Int


@descriptor("reduce_numbers", library="rare", any_alignment=True, made_of="reduce_elements", NUMBERS=1)
class ReduceNumbersDesc(ReduceElementsDesc):
    """The same for what is computed with other numbers than floats."""


@frozen
class Reduction:
    """The axes of a problem, pitches of the input and the result.

    Attributes:
        inner: An axis that stays, along which results are computed side by side; of size 1 where a result is computed
            of what lies side by side.
    """

    outer: Axis
    rows: Axis
    across: Axis
    along: Axis
    inner: Axis


def _axes(q: Query[Reduce]) -> Reduction | str:
    """Return the axes, or why there are too many."""
    x, y = q.inputs[0], q.outputs[0]
    reduced = q.primitive.reduced(x.rank)
    kept = iter(y.all_pitches)
    pitches = []
    for a in range(x.rank):
        pitch = 0 if a in reduced and not q.primitive.keepdims else next(kept)
        pitches.append(0 if a in reduced else pitch)
    found = merge([Axis(n, (p, o)) for n, p, o in zip(x.shape, x.all_pitches, pitches, strict=True)])
    one = Axis(1, (0, 0))
    inner = found.pop() if found and found[-1].pitches[1] else one
    stay = [a for a in found if a.pitches[1]]
    gone = [a for a in found if not a.pitches[1]]
    if len(stay) > 2 or len(gone) > 2:
        return "walks two axes that stay and two that are reduced, and this needs more"
    narrow = NARROW_FLOATS if _domain(q) == FLOAT else NARROW_NUMBERS
    if inner is one and stay and gone[-1].size <= narrow and stay[-1].size >= LANES:
        inner = stay.pop()
    (outer, rows), (across, along) = ([one, one, *axes][-2:] for axes in (stay, gone))
    return Reduction(outer, rows, across, along, inner)


@implements(
    Reduce,
    name="reduce.elements",
    serves=Serves(dtypes=frozenset(TYPES), kinds=frozenset({"cpu"}), fuses=FUSABLE, operands=8, mixed=True),
)
class ReduceElements(Implementation[Reduce]):
    """Runs of 512 elements at a time, converted to floats, doubles or longs; extrema of bytes and ints as they are."""

    @classmethod
    def limits(cls, q: Query[Reduce]) -> str | None:
        x, (y,), name = q.inputs[0], q.outputs, q.primitive.function
        if not x.is_dense_plain or not y.is_dense_plain or not x.count:
            return "reduces dense plain tensors of some elements"
        if name not in (OF_FLOATS if x.dtype.floating else EXTREMA if x.dtype == DType.BOOL else WHOLE):
            return f"computes no {name} of {x.dtype}"
        if _domain(q) == DOUBLE and "fp64" not in q.device.features:
            return "needs fp64 to compute with doubles"
        if q.post and y.dtype != DType.F32:
            return f"applies operations to float32 results, not {y.dtype}"
        if odd := [o for o in _operands(q) if o.count != 1 and (o.shape != y.shape or not o.is_dense_plain)]:
            return f"reads operands of one element or of the result's shape, not {odd[0]}"
        found = _axes(q)
        return found if isinstance(found, str) else count_refusal(q) or post_refusal(q)

    @classmethod
    def cost(cls, q: Query[Reduce]) -> float:
        r = _found(q)
        moved = sum(t.nbytes for t in (q.inputs[0], *q.outputs))
        return step_seconds(q.device, _units(r) * _unit_seconds(q, r), moved, _tickets(q, r).count)

    @classmethod
    def plan(cls, q: Query[Reduce]) -> Plan:
        r, x, (y,) = _found(q), q.inputs[0], q.outputs
        tickets = _tickets(q, r)
        desc = (ReduceElementsDesc if _domain(q) == FLOAT else ReduceNumbersDesc)(
            inp=Ref("in0"),
            out=Ref("out0"),
            in_outer=r.outer.pitches[0],
            in_rows=r.rows.pitches[0],
            in_across=r.across.pitches[0],
            in_along=r.along.pitches[0],
            in_inner=r.inner.pitches[0] or 1,
            out_outer=r.outer.pitches[1],
            out_rows=r.rows.pitches[1],
            in_type=TYPES[x.dtype],
            out_type=TYPES[y.dtype],
            in_size=x.dtype.itemsize,
            out_size=y.dtype.itemsize,
            domain=_domain(q),
            operation=CODES[q.primitive.function],
            rows=r.rows.size,
            across=r.across.size,
            along=r.along.size,
            inner=r.inner.size,
            count=r.across.size * r.along.size,
            inner_runs=-(-r.inner.size // RUN),
            short_rows=int(_short_rows(q, r)),
            units=_units(r),
            ticket_units=tickets.each,
        )

        def pitches(operand: Layout) -> tuple[int, int, int, int, int]:
            return (0, 0, 0, 0, 0) if operand.count == 1 else (r.inner.size if r.inner.size > 1 else 0, 0, 0, LANES, 1)

        steps = post_steps(q, pitches)
        return Plan((Tile(desc.function, desc, tickets.count, scratch=5 * RUN * RUN_BYTES, post=steps),))


def _domain(q: Query[Reduce]) -> int:
    """Return what is computed with."""
    dtype = q.inputs[0].dtype
    if dtype.floating:
        return domain_of(dtype)
    if q.primitive.function in EXTREMA and dtype.itemsize == 1:
        return BYTES
    if q.primitive.function in EXTREMA and dtype == DType.I32:
        return INT
    return DOUBLE if q.primitive.function in ROOTS else LONG


def _operands(q: Query[Reduce]) -> Sequence[Layout]:
    return [q.inputs[s] for s in q.post_slots]


def _found(q: Query[Reduce]) -> Reduction:
    found = _axes(q)
    if isinstance(found, str):
        raise TypeError(found)
    return found


def _short_rows(q: Query[Reduce], r: Reduction) -> bool:
    """Whether several rows are reduced at a time."""
    numbers = _domain(q) == FLOAT or q.inputs[0].dtype == DType.F64
    return r.inner.size == 1 and numbers and r.along.size <= MOST_SHORT


def _units(r: Reduction) -> int:
    return r.outer.size * r.rows.size * -(-r.inner.size // RUN)


def _unit_seconds(q: Query[Reduce], r: Reduction) -> float:
    vector = q.device.costs.unit("copy.vector")
    as_it_is = _domain(q) in (BYTES, INT) or q.inputs[0].dtype in (DType.F32, DType.F64, DType.I64)
    converted = 1 if as_it_is else 2
    if _short_rows(q, r):
        return r.across.size * (-(-r.along.size // LANES) + 4) * vector * converted
    if r.inner.size == 1:
        vectors = r.across.size * (-(-r.along.size // LANES) + 4 * -(-r.along.size // RUN))
    else:
        vectors = r.across.size * r.along.size * (-(-min(r.inner.size, RUN) // LANES) + 4)
    return UNIT_SECONDS + vectors * vector * converted


def _tickets(q: Query[Reduce], r: Reduction) -> TicketRanges:
    """Return the units of the tickets: of single results a multiple of 16 where so many are computed together."""
    found = runs(_units(r), _unit_seconds(q, r), q.device)
    together = _short_rows(q, r) or (r.inner.size == 1 and bool(q.post))
    each = -(-found.each // LANES) * LANES if together else found.each
    return TicketRanges(-(-_units(r) // each), each)
