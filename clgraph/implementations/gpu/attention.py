"""Attention for GPUs: one pass over the keys, by tiles in local memory, or a query at a time without it."""

from __future__ import annotations

from clgraph.implementations.gpu.local_tiles import SIDE, direct_refusal
from clgraph.implementations.gpu.vectors import LANES, vector_jit
from clgraph.implementations.portable.matmul import EMULATED_LOCAL, EMULATED_SHARE
from clgraph.ops.attention import Attention, attention_space, bias_view
from clgraph.selector.general import FLOATS, General, float_jit, launch, post_arguments, table
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

QUERIES = 32
"""Queries of a group."""
KEYS = (32, 16)
"""Keys at a time: as many as local memory has room for."""
DEEPEST = 128


@implements(
    Attention, name="attention.gpu_tiled", serves=Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), fuses=FUSABLE)
)
class AttentionGpuTiled(General[Attention]):
    """Groups of 16 x 16 work-items make 32 queries, 16 or 32 keys at a time."""

    @classmethod
    def further_limits(cls, q: Query[Attention]) -> str | None:
        m, n, d, e = q.primitive.sizes(q.own)
        if max(d, e) > DEEPEST:
            return f"serves heads of up to {DEEPEST}, not {max(d, e)}"
        if not m * n * d * e:
            return "requires queries, keys and values"
        if q.device.max_work_group < SIDE * SIDE:
            return f"requires groups of {SIDE * SIDE} work-items, the device has {q.device.max_work_group}"
        needed = _local_bytes(d, e, KEYS[-1])
        return f"requires {needed} bytes of local memory" if needed > q.device.local_bytes else None

    @classmethod
    def cost(cls, q: Query[Attention]) -> float:
        (y,) = q.outputs
        m, _, _, e = q.primitive.sizes(q.own)
        groups = -(-m // QUERIES) * max(1, y.count // max(1, m * e))
        busy = min(1.0, groups / max(q.device.compute_units, 1))
        share = 0.15 * (EMULATED_SHARE if EMULATED_LOCAL in q.device.features else 1.0)
        return roofline(q, share * busy, 0.6)

    @classmethod
    def plan(cls, q: Query[Attention]) -> Plan:
        (y,), p = q.outputs, q.primitive
        queries, keys, values = q.own[:3]
        m, n, d, e = p.sizes(q.own)
        key, part = (-2, -1) if p.by_key else (-1, -2)
        s = attention_space(q, [range(y.rank - 2), [y.rank - 2], [y.rank - 1]])
        behind = keys.all_pitches[key] == 1
        numbers = table(
            s.dims,
            *s.views[:5],
            [n, d, e, queries.all_pitches[-1], keys.all_pitches[part], keys.all_pitches[key]],
            [values.all_pitches[-2], bias_view(q).pitches[-1], int(q.arity > 3), int(behind)],
        )
        chosen = next(k for k in KEYS if _local_bytes(d, e, k) <= q.device.local_bytes)
        jit = float_jit(y.dtype, len(s.dims)).define(DEPTH=_whole(d), WIDTH=_whole(e), KEYS=chosen)
        arguments = ("in0", "in1", "in2", q.role(3), "out0", numbers, p.scale)
        posts = post_arguments(q, s.views[5:], len(s.dims))
        grid = (SIDE, -(-m // QUERIES) * SIDE, s.counts[0])
        entry = "attention_gpu_tiled"
        return Plan((Launch(f"attention/{entry}.cl", entry, jit, grid, (SIDE, SIDE, 1), (*arguments, *posts)),))


@implements(
    Attention, name="attention.gpu_direct", serves=Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), fuses=FUSABLE)
)
class AttentionGpuDirect(General[Attention]):
    """A query a work-item, without local memory."""

    @classmethod
    def further_limits(cls, q: Query[Attention]) -> str | None:
        m, n, d, e = q.primitive.sizes(q.own)
        if reason := direct_refusal(q.device):
            return reason
        if max(d, e) > DEEPEST or d % LANES or e % LANES:
            return f"serves heads of multiples of {LANES} up to {DEEPEST}, not {d} and {e}"
        if not m * n * d * e:
            return "requires queries, keys and values"
        (y,) = q.outputs
        *pitches, along = y.all_pitches
        if along != 1 or any(i % LANES for i in (y.origin, *pitches)):
            return "requires whole vectors along the last axis of the result"
        return None

    @classmethod
    def cost(cls, q: Query[Attention]) -> float:
        return roofline(q, 0.08, 0.6)

    @classmethod
    def plan(cls, q: Query[Attention]) -> Plan:
        (y,), p = q.outputs, q.primitive
        queries, keys, values = q.own[:3]
        _, n, d, e = p.sizes(q.own)
        key, part = (-2, -1) if p.by_key else (-1, -2)
        s = attention_space(q, [range(y.rank - 1), [y.rank - 1]])
        along = [queries.all_pitches[-1], keys.all_pitches[part], keys.all_pitches[key]]
        over = [values.all_pitches[-2], bias_view(q).pitches[-1], int(q.arity > 3)]
        numbers = table(s.dims, *s.views[:5], [n], along, over)
        jit = vector_jit(y.dtype, len(s.dims)).define(DEPTH=d, WIDTH=e)
        posts = post_arguments(q, s.views[5:], len(s.dims))
        arguments = ("in0", "in1", "in2", q.role(3), "out0", numbers, p.scale)
        return Plan((launch("attention/attention_gpu_direct", jit, s.counts[0], *arguments, *posts),))


def _whole(size: int) -> int:
    return -(-size // SIDE) * SIDE


def _local_bytes(depth: int, width: int, keys: int) -> int:
    return 4 * ((QUERIES + keys) * (_whole(depth) + 1) + keys * _whole(width) + QUERIES * (keys + 1))
