"""Caches as tensors of all their places on CPU devices: each head is copied as it lies in memory."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.element_types import TYPES
from clgraph.ops.cache_join import NEW, STATE, CacheJoin
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.general import FLOATS
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("join_cache")
class JoinCacheDesc(Descriptor):
    """Fields as in ``join_cache.cl``."""

    rows: Pointer
    lengths: Pointer
    state: Pointer
    out: Pointer
    at: Long
    batch: Int
    heads: Int
    tokens: Int
    places: Int
    depth: Int
    type: Int
    itemsize: Int


@implements(
    CacheJoin,
    name="cache_join.rows",
    serves=Serves(dtypes=FLOATS | {DType.I32, DType.BOOL}, mixed=True, kinds=frozenset({"cpu"})),
)
class CacheJoinRows(Implementation[CacheJoin]):
    """The new rows into the cache, then what it holds and the new rows to the result."""

    @classmethod
    def limits(cls, q: Query[CacheJoin]) -> str | None:
        if any(x.dtype != DType.F32 for x in (q.inputs[NEW], q.outputs[0])):
            return "serves float32 beside the caches"
        dense = all(x.is_dense_plain for x in (*q.inputs, *q.outputs))
        return None if dense else "serves dense plain tensors"

    @classmethod
    def cost(cls, q: Query[CacheJoin]) -> float:
        new, y = q.inputs[NEW], q.outputs[0]
        moved = 2.0 * (new.nbytes + y.nbytes)
        return step_seconds(q.device, moved * q.device.costs.unit("move.byte"), moved, new.shape[0] * new.shape[1])

    @classmethod
    def plan(cls, q: Query[CacheJoin]) -> Plan:
        (batch, heads, tokens, depth), state = q.own[NEW].shape, q.own[STATE].dtype
        desc = JoinCacheDesc(
            rows=Ref("in0"),
            lengths=Ref("in1"),
            state=Ref("in2"),
            out=Ref("out0"),
            at=q.primitive.at,
            batch=batch,
            heads=heads,
            tokens=tokens,
            places=q.outputs[0].shape[2],
            depth=depth,
            type=TYPES[state],
            itemsize=state.itemsize,
        )
        return Plan((Tile("join_cache", desc, batch * heads),))
