"""Attention of plain matrices on CPU devices: scores never leave a worker's cache."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import TicketRanges, split, step_seconds, ticket_seconds, worker_flops
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import GROUP, widest_instance
from clgraph.implementations.cpu.rows import Axis, broadcast_pitches, merge
from clgraph.ops.attention import Attention
from clgraph.selector.descriptor import Descriptor, Float, Int, Long, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.post import post_steps
from clgraph.selector.query import Query

MOST_ROWS = 24
"""Queries of a ticket, as in ``attention_rows.cl``: their scores for 1024 keys are 96 KB."""

FEW_ROWS = 2
"""Queries that read keys and values where they lie, as in ``attention_rows.cl``."""

MOST_SCRATCH = 512 * 1024
"""Bytes of scores and packed values that still stay in a worker's cache."""


@descriptor("attention_rows", micros=("micro_matmul",), any_alignment=True)
class AttentionRowsDesc(Descriptor):
    """Fields as in ``attention_rows.cl``."""

    q: Pointer
    k: Pointer
    v: Pointer
    bias: Pointer
    out: Pointer
    q_batch: Long
    k_batch: Long
    v_batch: Long
    out_batch: Long
    bias_outer: Long
    bias_inner: Long
    inner: Int
    bias_row: Int
    bias_column: Int
    batch: Int
    rows: Int
    keys: Int
    depth: Int
    width: Int
    by_key: Int
    ticket_rows: Int
    spans: Int
    nb: Int
    widest: Int
    first_id: Int
    narrow_id: Int
    scale: Float

    def reads_in_place(self, slot: int) -> bool:
        """Whether one ticket reads each matrix, and what it reads behind one is in the next."""
        return self.spans == 1 and min(self.k_batch, self.v_batch) >= GROUP


@frozen
class Batch:
    """The axes in front of the matrices: their number of elements, the inner ones of them, and pitches.

    Attributes:
        outer, inner: The batch elements as two axes; pitches of queries, keys, values, the result and the bias.
        operands: Of each operand of the list: pitches along the batch, the queries and the elements of a result.
    """

    outer: Axis
    inner: Axis
    operands: tuple[tuple[int, int, int], ...]

    @property
    def count(self) -> int:
        """Matrices of queries, keys or values."""
        return self.outer.size * self.inner.size


@remembered
def attention_batch(q: Query[Attention]) -> Batch | str:
    """Return the batch, or why no driver can walk it."""
    y = q.outputs[0]
    tensors = [x.all_pitches for x in (*q.own[:3], y)]
    tensors.append(broadcast_pitches(q.inputs[3], y.rank) if q.arity > 3 else (0,) * y.rank)
    nest = [Axis(size, pitches) for size, pitches in zip(y.shape, zip(*tensors, strict=True), strict=True)]
    outer = merge(nest[:-2])
    if len(outer) > 2:
        return "walks two batch axes, and these tensors need more"
    still = Axis(1, (0,) * len(tensors))
    inner, first = (outer.pop() if outer else still), (outer.pop() if outer else still)
    operands, dense = [], y.plain().all_pitches
    for slot in q.post_slots:
        own = broadcast_pitches(q.inputs[slot], y.rank)
        axes = merge([Axis(size, (a, p)) for size, a, p in zip(y.shape, dense, own, strict=True)][:-2])
        if len(axes) > 1:
            return "requires operands that move evenly along the batch"
        operands.append((axes[0].pitches[1] if axes else 0, own[-2], own[-1]))
    return Batch(first, inner, tuple(operands))


def bias_steps(q: Query[Attention]) -> tuple[int, int]:
    """Return the floats of the bias from one query and from one key to the next."""
    pitches = broadcast_pitches(q.inputs[3], q.outputs[0].rank) if q.arity > 3 else (0, 0)
    return pitches[-2], pitches[-1]


def attention_posts(q: Query[Attention], batch: Batch) -> tuple[PostStep, ...]:
    """Return the list of post-operations on each query's result; n counts the batch elements, y the queries."""
    pitches = iter([(n, 0, row, LANES * last, last) for n, row, last in batch.operands])
    return post_steps(q, lambda layout: next(pitches))


def _row_seconds(q: Query[Attention]) -> float:
    """Return one worker's time for one query."""
    rows, keys, depth, width = q.primitive.sizes(q.own)
    widest = widest_instance(q.device)
    nb, count = widest.nb, min(widest.rows, rows)
    steps = -(-keys // GROUP) * depth + -(-width // GROUP) * keys
    product = steps * half_cycles(nb, count) / count * (GROUP // LANES // nb) * 2 * LANES / worker_flops(q.device)
    return product + -(-keys // LANES) * q.device.costs.unit("softmax.vector")


def _tickets(q: Query[Attention], batch: int) -> TicketRanges:
    rows = q.primitive.sizes(q.own)[0]
    each, row = widest_instance(q.device).rows, _row_seconds(q)
    most = MOST_ROWS // each
    wanted = ticket_seconds(row * rows * batch, q.device)
    found = split(-(-rows // each), row * each, wanted, 1)
    runs = min(rows, max(1, min(found.each, most)) * each)
    return TicketRanges(-(-rows // runs), runs)


def _scratch(q: Query[Attention], ticket_rows: int) -> int:
    """Return the bytes of the scores and of what is packed, keys or values."""
    rows, keys, depth, width = q.primitive.sizes(q.own)
    if q.primitive.by_key and rows <= FEW_ROWS:
        return 4 * ticket_rows * -(-keys // GROUP) * GROUP
    packed = -(-depth // LANES) * LANES if q.primitive.by_key or keys % GROUP else 0
    if width % GROUP:
        packed = max(packed, -(-keys // LANES) * LANES)
    return 4 * (ticket_rows * -(-keys // GROUP) * GROUP + packed * GROUP)


@implements(Attention, name="attention.rows", serves=replace(TILE, formats=False, halos=False))
class AttentionRows(Implementation[Attention]):
    """Runs of queries: their scores, the exponentials, the mixture of values, each a product in register blocks."""

    @classmethod
    def limits(cls, q: Query[Attention]) -> str | None:
        if not all(x.is_dense_plain for x in (*q.own, q.outputs[0])):
            return "serves dense plain tensors"
        if (size := _scratch(q, min(MOST_ROWS, q.primitive.sizes(q.own)[0]))) > MOST_SCRATCH:
            return f"keeps scores in {MOST_SCRATCH} bytes, and these need {size}"
        if any(x.format.blocks for x in q.inputs[q.arity :]):
            return "reads operands in plain formats"
        batch = attention_batch(q)
        return batch if isinstance(batch, str) else post_refusal(q)

    @classmethod
    def cost(cls, q: Query[Attention]) -> float:
        batch, rows = attention_batch(q), q.primitive.sizes(q.own)[0]
        count = 1 if isinstance(batch, str) else batch.count
        traffic = sum(x.nbytes for x in (*q.own, q.outputs[0]))
        return step_seconds(q.device, _row_seconds(q) * rows * count, traffic, _tickets(q, count).count * count)

    @classmethod
    def plan(cls, q: Query[Attention]) -> Plan:
        batch = attention_batch(q)
        if isinstance(batch, str):
            raise TypeError(batch)
        rows, keys, depth, width = q.primitive.sizes(q.own)
        tickets = _tickets(q, batch.count)
        widest, (bias_row, bias_column) = widest_instance(q.device), bias_steps(q)
        desc = AttentionRowsDesc(
            q=Ref("in0"),
            k=Ref("in1"),
            v=Ref("in2"),
            bias=Ref(q.role(3)),
            out=Ref("out0"),
            q_batch=rows * depth,
            k_batch=keys * depth,
            v_batch=keys * width,
            out_batch=rows * width,
            bias_outer=batch.outer.pitches[4],
            bias_inner=batch.inner.pitches[4],
            inner=batch.inner.size,
            bias_row=bias_row,
            bias_column=bias_column,
            batch=batch.count,
            rows=rows,
            keys=keys,
            depth=depth,
            width=width,
            by_key=int(q.primitive.by_key),
            ticket_rows=tickets.each,
            spans=tickets.count,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            narrow_id=widest.narrow_id,
            scale=q.primitive.scale,
        )
        post, scratch = attention_posts(q, batch), _scratch(q, tickets.each)
        return Plan((Tile("attention_rows", desc, tickets.count * batch.count, scratch=scratch, post=post),))
