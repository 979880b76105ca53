"""Attention on CPU devices with a query in each lane: queries, keys and values are read where products left them."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.cpu.attention import attention_batch, attention_posts, bias_steps
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import TicketRanges, again_seconds, step_seconds, worker_flops
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import GROUP, widest_instance
from clgraph.ops.attention import Attention
from clgraph.selector.descriptor import Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

NARROW = GROUP // 2
"""Queries of a ticket where there would be few tickets of 64."""

MOST_SCRATCH = 16 << 20
"""Bytes of scores, queries and packed values of a worker. What its own cache does not keep comes out of the one that
cores share, still sooner than the scores of all queries out of memory: of 2500 to 9000 keys, the products and the
softmax alone take 1.7 to 4.7 times the processor time."""
SCORE_PASSES = 4
"""How often a ticket goes over its scores: they are written, read and written as exponentials, and multiplied."""


_FILE = "attention/micro_scores.cl"
_KEYS = 6
"""Keys of an instance, where there are as many."""
_SINGLE = Micro.of(_FILE, NB=1, UR=1)

MICROS = micro_family(
    "micro_scores",
    {
        simd: [_SINGLE, *(Micro.of(_FILE, NB=nb, UR=_KEYS) for nb in range(1, 1 + most))]
        for simd, most in ((16, 4), (8, 1))
    },
)


@descriptor("attention_columns", micros=("micro_matmul", "micro_scores"), any_alignment=True)
class AttentionColumnsDesc(Descriptor):
    """Fields as in ``attention_columns.cl``."""

    q: Pointer
    k: Pointer
    v: Pointer
    bias: Pointer
    out: Pointer
    q_outer: Long
    k_outer: Long
    v_outer: Long
    out_outer: Long
    bias_outer: Long
    q_inner: Long
    k_inner: Long
    v_inner: Long
    out_inner: Long
    bias_inner: Long
    q_row: Long
    k_row: Long
    v_row: Long
    out_row: Long
    v_floats: Long
    inner: Int
    q_column: Int
    k_column: Int
    bias_row: Int
    bias_column: Int
    rows: Int
    keys: Int
    depth: Int
    width: Int
    ticket_rows: Int
    spans: Int
    nb: Int
    widest: Int
    first_id: Int
    narrow_id: Int
    scores_id: Int
    scale: Float

    def reads_in_place(self, slot: int) -> bool:
        """Whether one ticket reads each matrix: others are sooner copied to where vectors begin with cache lines."""
        return self.spans == 1


def _tickets(q: Query[Attention], batch: int) -> TicketRanges:
    rows = q.primitive.sizes(q.own)[0]
    few = -(-rows // GROUP) * batch < 4 * q.device.workers
    each = NARROW if few else GROUP
    return TicketRanges(-(-rows // each), each)


def _scratch(q: Query[Attention]) -> int:
    """Return the bytes of the scores, their maxima, the queries and what is packed: values, or a tile of the bias."""
    _, keys, depth, _ = q.primitive.sizes(q.own)
    return 4 * GROUP * (keys + 1 + sum(-(-size // LANES) * LANES for size in (depth, keys)))


def _seconds(q: Query[Attention]) -> float:
    """Return one worker's time for all queries of a matrix."""
    rows, keys, depth, width = q.primitive.sizes(q.own)
    widest = widest_instance(q.device)
    nb = widest.nb
    least = NARROW if widest.narrow_id >= 0 else nb * LANES
    lanes, columns = (-(-size // each) * each for size, each in ((rows, LANES), (width, least)))
    blocks = keys * (depth * lanes + rows * columns) / (LANES * nb * widest.rows)
    product = blocks * half_cycles(nb, widest.rows) * 2 * LANES / worker_flops(q.device)
    return product + keys * lanes / LANES * q.device.costs.unit("softmax.vector")


@implements(Attention, name="attention.columns", serves=replace(TILE, formats=False, halos=False))
class AttentionColumns(Implementation[Attention]):
    """Runs of queries, one in each lane: their scores key by key, the exponentials, the mixture of values."""

    @classmethod
    def limits(cls, q: Query[Attention]) -> str | None:
        if any(x.halo for x in (*q.own, q.outputs[0])) or not all(x.is_dense_plain for x in q.own[3:]):
            return "serves tensors without a halo, and a dense bias"
        if any(x.all_pitches[-1] != 1 and x.shape[-1] > 1 for x in (q.own[2], q.outputs[0])):
            return "requires the elements of a value and of a result side by side"
        if (size := _scratch(q)) > MOST_SCRATCH:
            return f"keeps scores in {MOST_SCRATCH} bytes, and these need {size}"
        if any(x.format.blocks for x in q.inputs[q.arity :]):
            return "reads operands in plain formats"
        batch = attention_batch(q)
        return batch if isinstance(batch, str) else post_refusal(q)

    @classmethod
    def cost(cls, q: Query[Attention]) -> float:
        batch = attention_batch(q)
        count = 1 if isinstance(batch, str) else batch.count
        traffic, tickets = sum(x.nbytes for x in (*q.own, q.outputs[0])), _tickets(q, count).count * count
        waited = again_seconds(q.device, _scratch(q), SCORE_PASSES * tickets)
        return step_seconds(q.device, _seconds(q) * count, traffic, tickets) + waited

    @classmethod
    def plan(cls, q: Query[Attention]) -> Plan:
        batch = attention_batch(q)
        if isinstance(batch, str):
            raise TypeError(batch)
        rows, keys, depth, width = q.primitive.sizes(q.own)
        queries, values, y = q.own[0].all_pitches, q.own[2].all_pitches, q.outputs[0].all_pitches
        k_row, k_column = q.own[1].all_pitches[-2:] if q.primitive.by_key else q.own[1].all_pitches[:-3:-1]
        tickets, widest, (bias_row, bias_column) = _tickets(q, batch.count), widest_instance(q.device), bias_steps(q)
        outer, inner = batch.outer.pitches, batch.inner.pitches
        desc = AttentionColumnsDesc(
            q=Ref("in0"),
            k=Ref("in1"),
            v=Ref("in2"),
            bias=Ref(q.role(3)),
            out=Ref("out0"),
            q_outer=outer[0],
            k_outer=outer[1],
            v_outer=outer[2],
            out_outer=outer[3],
            bias_outer=outer[4],
            q_inner=inner[0],
            k_inner=inner[1],
            v_inner=inner[2],
            out_inner=inner[3],
            bias_inner=inner[4],
            q_row=queries[-2],
            k_row=k_row,
            v_row=values[-2],
            out_row=y[-2],
            v_floats=q.own[2].span,
            inner=batch.inner.size,
            q_column=queries[-1],
            k_column=k_column,
            bias_row=bias_row,
            bias_column=bias_column,
            rows=rows,
            keys=keys,
            depth=depth,
            width=width,
            ticket_rows=tickets.each,
            spans=tickets.count,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            narrow_id=widest.narrow_id,
            scores_id=MICROS.id(q.device.simd, _SINGLE),
            scale=q.primitive.scale,
        )
        post = attention_posts(q, batch)
        return Plan((Tile("attention_columns", desc, tickets.count * batch.count, scratch=_scratch(q), post=post),))
