"""Attention over caches on CPU devices: one walk over the keys for all queries that share them."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.cost import TicketRanges, step_seconds, worker_flops
from clgraph.implementations.cpu.element_types import TYPES
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_instances import GROUP, widest_instance
from clgraph.ops.cached_attention import KEYS, LENGTHS, QUERIES, STATE, VALUES, CachedAttention, bias_rows
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

CHUNK = 256
"""Keys whose scores lie in scratch at a time, as in ``attend_cache.cl``."""

MOST_ROWS = 48
"""Queries of a ticket, as in ``attend_cache.cl``."""

_CACHES = {dtype: TYPES[dtype] for dtype in (DType.F32, DType.F16, DType.BF16, DType.I8)} | {DType.U8: 64}
"""Codes of what the caches hold, as in ``cache_numbers.clh``; others than float32 become floats a chunk at a time."""

TYPICAL_KEYS = 512
"""Keys that an estimate takes a cache to have: it is known when the program runs."""


@descriptor("append_cache")
class AppendCacheDesc(Descriptor):
    """Fields as in ``append_cache.cl``."""

    keys: Pointer
    values: Pointer
    lengths: Pointer
    state: Pointer
    keys_at: Long
    values_at: Long
    batch: Int
    heads: Int
    tokens: Int
    depth: Int
    width: Int
    type: Int
    itemsize: Int


@descriptor("attend_cache", micros=("micro_matmul",))
class AttendCacheDesc(Descriptor):
    """Fields as in ``attend_cache.cl``."""

    q: Pointer
    lengths: Pointer
    state: Pointer
    bias: Pointer
    sink: Pointer
    out: Pointer
    keys_at: Long
    values_at: Long
    bias_text: Long
    bias_head: Long
    bias_row: Long
    batch: Int
    heads: Int
    shared: Int
    tokens: Int
    depth: Int
    width: Int
    type: Int
    itemsize: Int
    causal: Int
    window: Int
    ticket_rows: Int
    spans: Int
    nb: Int
    widest: Int
    first_id: Int
    scale: Float
    cap: Float


def _tickets(q: Query[CachedAttention]) -> TicketRanges:
    """Return the runs of queries that share keys; more than one where there are workers for them."""
    (batch, heads, tokens, _), shared = q.own[QUERIES].shape, q.own[KEYS].shape[1]
    rows, each = heads // shared * tokens, widest_instance(q.device).rows
    wanted = -(-rows * batch * shared // q.device.workers)
    runs = min(MOST_ROWS, max(1, -(-wanted // each)) * each, rows)
    return TicketRanges(-(-rows // runs), runs)


def _scratch(q: Query[CachedAttention], rows: int) -> int:
    """Return the bytes of the scores of a chunk, of what it adds, and of packed keys or values."""
    depth, width = q.own[KEYS].shape[3], q.own[VALUES].shape[3]
    packed = GROUP * max(-(-depth // LANES) * LANES, CHUNK if width % GROUP else 0)
    widened = 0 if q.own[STATE].dtype == DType.F32 else max(GROUP * depth, CHUNK * width)
    return 4 * (rows * (CHUNK + width) + packed + widened + LANES)


@implements(
    CachedAttention,
    name="cached_attention.rows",
    serves=Serves(dtypes=frozenset({DType.I32, *_CACHES}), mixed=True, kinds=frozenset({"cpu"})),
)
class CachedAttentionRows(Implementation[CachedAttention]):
    """The new keys and values, then runs of queries over the caches, a chunk of keys at a time."""

    @classmethod
    def limits(cls, q: Query[CachedAttention]) -> str | None:
        tensors = (*q.own[:LENGTHS], *q.outputs)
        if any(x.dtype != DType.F32 for x in (*tensors, *q.own[STATE + 1 :])):
            return "serves float32 beside the caches"
        return None if all(x.is_dense_plain for x in tensors) else "serves dense plain tensors"

    @classmethod
    def cost(cls, q: Query[CachedAttention]) -> float:
        (batch, heads, tokens, depth), width = q.own[QUERIES].shape, q.own[VALUES].shape[3]
        shared, widest, found = q.own[KEYS].shape[1], widest_instance(q.device), _tickets(q)
        count = min(widest.rows, found.each)
        tap = half_cycles(widest.nb, count) / count * 2 * LANES / worker_flops(q.device) / widest.nb
        work = tap * (depth + width) * TYPICAL_KEYS / LANES * heads * tokens * batch
        traffic = 4 * batch * shared * TYPICAL_KEYS * (depth + width)
        return step_seconds(q.device, work, traffic, found.count * batch * shared) + q.device.costs.step_seconds

    @classmethod
    def plan(cls, q: Query[CachedAttention]) -> Plan:
        p, (batch, heads, tokens, depth) = q.primitive, q.own[QUERIES].shape
        shared, width, widest, found = (
            q.own[KEYS].shape[1],
            q.own[VALUES].shape[3],
            widest_instance(q.device),
            _tickets(q),
        )
        roles = {name: Ref(f"in{STATE + 1 + i}", 4 * q.own[STATE + 1 + i].origin) for i, name in enumerate(p.reads)}
        text, head, row = bias_rows(q)
        append = AppendCacheDesc(
            keys=Ref(f"in{KEYS}"),
            values=Ref(f"in{VALUES}"),
            lengths=Ref(f"in{LENGTHS}"),
            state=Ref(f"in{STATE}"),
            keys_at=p.keys_at,
            values_at=p.values_at,
            batch=batch,
            heads=shared,
            tokens=tokens,
            depth=depth,
            width=width,
            type=_CACHES[q.own[STATE].dtype],
            itemsize=q.own[STATE].dtype.itemsize,
        )
        attend = AttendCacheDesc(
            q=Ref(f"in{QUERIES}"),
            lengths=Ref(f"in{LENGTHS}"),
            state=Ref(f"in{STATE}"),
            bias=roles.get("bias", NULL),
            sink=roles.get("sink", NULL),
            out=Ref("out0"),
            keys_at=p.keys_at,
            values_at=p.values_at,
            bias_text=text,
            bias_head=head,
            bias_row=row,
            batch=batch,
            heads=heads,
            shared=shared,
            tokens=tokens,
            depth=depth,
            width=width,
            type=_CACHES[q.own[STATE].dtype],
            itemsize=q.own[STATE].dtype.itemsize,
            causal=int(p.causal),
            window=p.window,
            ticket_rows=found.each,
            spans=found.count,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            scale=p.factor(depth),
            cap=p.cap,
        )
        steps = (
            Tile("append_cache", append, batch * shared),
            Tile("attend_cache", attend, batch * shared * found.count, scratch=_scratch(q, found.each)),
        )
        return Plan(steps)
