"""Attention over caches on GPUs: groups share keys among a few queries, and the keys of few queries among groups."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.ops.cached_attention import KEYS, QUERIES, STATE, VALUES, CachedAttention, append_launch, attend_parts
from clgraph.selector.general import FLOATS, General, launch
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.query import Query

ITEMS = 64
"""Work-items of a group, and keys at a time, as in ``cached_attention_gpu.cl``."""

PART = 16
"""Elements of a key that are in local memory at a time, as there."""

ROWS = 8
"""Queries of a group, at most."""

SPLITS = 16
"""Parts of the keys, at most."""

DEEPEST = 256

TYPICAL_KEYS = 512
"""Keys that an estimate takes a cache to have: it is known when the program runs."""


@implements(
    CachedAttention,
    name="cached_attention.gpu_shared",
    serves=Serves(dtypes=FLOATS | {DType.I32, DType.I8, DType.U8}, mixed=True, kinds=frozenset({"gpu"})),
)
class CachedAttentionGpuShared(General[CachedAttention]):
    """A group of 64 makes up to 8 queries that share a head of the caches, of all keys or of a part of them."""

    @classmethod
    def further_limits(cls, q: Query[CachedAttention]) -> str | None:
        depth, width = q.own[KEYS].shape[3], q.own[VALUES].shape[3]
        if not 0 < min(depth, width) <= max(depth, width) <= DEEPEST:
            return f"serves heads of 1 to {DEEPEST}, not {depth} and {width}"
        if DType.F64 in q.dtypes:
            return "computes with floats"
        if q.device.max_work_group < ITEMS:
            return f"requires groups of {ITEMS} work-items, the device has {q.device.max_work_group}"
        needed = 4 * (_rows(q) * (-(-depth // PART) * PART + 2 * ITEMS) + ITEMS * (PART + 1))
        return f"requires {needed} bytes of local memory" if needed > q.device.local_bytes else None

    @classmethod
    def cost(cls, q: Query[CachedAttention]) -> float:
        (batch, heads, tokens, depth), width = q.own[QUERIES].shape, q.own[VALUES].shape[3]
        shared, runs, splits = q.own[KEYS].shape[1], _runs(q), _splits(q)
        read = batch * shared * runs * TYPICAL_KEYS * (depth + width) * q.own[STATE].dtype.itemsize
        work = 2 * batch * heads * tokens * TYPICAL_KEYS * (depth + width)
        busy = min(1.0, batch * shared * runs * splits / max(q.device.compute_units, 1))
        seconds = max(work / (q.device.flops * 0.1), read / (q.device.bytes_per_second * 0.5)) / busy
        return q.device.launch_seconds * (2 + (splits > 1)) + seconds

    @classmethod
    def plan(cls, q: Query[CachedAttention]) -> Plan:
        batch, shared, width, splits = q.own[QUERIES].shape[0], q.own[KEYS].shape[1], q.own[VALUES].shape[3], _splits(q)
        jit, tensors, numbers = attend_parts(q)
        entry, grid = "cached_attention_gpu", (_runs(q) * ITEMS, splits, batch * shared)
        joining = "cached_attention/cached_attention_gpu_join"
        arguments = (*tensors, "scratch0" if splits > 1 else "null", numbers)
        jit = jit.define(ROWS=_rows(q), SPLITS=splits)
        attend = Launch(f"cached_attention/{entry}.cl", entry, jit, grid, (ITEMS, 1, 1), arguments)
        if splits == 1:
            return Plan((append_launch(q), attend))
        queries = prod(q.own[QUERIES].shape[:3])
        join = launch(joining, jit, queries * width, "scratch0", "out0", numbers)
        return Plan((append_launch(q), attend, join), (4 * queries * splits * (width + 2),))


def _shared_rows(q: Query[CachedAttention]) -> int:
    """Return how many queries share a head of the caches."""
    return q.own[QUERIES].shape[1] // q.own[KEYS].shape[1] * q.own[QUERIES].shape[2]


def _rows(q: Query[CachedAttention]) -> int:
    """Return the queries of a group: a power of two, so that few texts of kernels serve all."""
    return min(ROWS, 1 << (_shared_rows(q) - 1).bit_length())


def _runs(q: Query[CachedAttention]) -> int:
    return -(-_shared_rows(q) // _rows(q))


def _splits(q: Query[CachedAttention]) -> int:
    """Return the parts of the keys: a power of two, so that there are two groups for each of the device's units."""
    groups = q.own[KEYS].shape[0] * q.own[KEYS].shape[1] * _runs(q)
    wanted = -(-2 * q.device.compute_units // groups)
    return min(SPLITS, 1 << max(0, wanted - 1).bit_length())
