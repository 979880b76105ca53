"""Unpooling of elements of any type on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.coordinates import Coordinates
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, move_seconds, move_tile
from clgraph.implementations.cpu.put_elements import Puts, put_seconds, put_tile
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.max_pool_indices import MaxUnpool
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@implements(MaxUnpool, name="max_unpool.elements", serves=ANY_ELEMENTS)
class MaxUnpoolElements(Implementation[MaxUnpool]):
    """Zeros, then the elements one after another: one index is the place in the whole result."""

    @classmethod
    def limits(cls, q: Query[MaxUnpool]) -> str | None:
        if q.primitive.natural(q.inputs[0].shape) != q.primitive.shape:
            return "counts the indices in the result; whether those of another shape count in what was pooled is data"
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "puts into dense plain tensors"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[MaxUnpool]) -> float:
        x, indices = q.own
        zeros = move_seconds(_zeros(q), x.dtype.itemsize, q.device)
        return zeros + put_seconds(_puts(q), x.dtype, indices, q.device)

    @classmethod
    def plan(cls, q: Query[MaxUnpool]) -> Plan:
        x, indices = q.own
        zeros = move_tile(_zeros(q), x.dtype.itemsize, q.device)
        return Plan((zeros, put_tile(_puts(q), (Ref("in1"), indices), Ref("in0"), x.dtype, q.device)))


def _zeros(q: Query[MaxUnpool]) -> Move:
    return Move(None, Ref("out0"), (Axis(q.outputs[0].count, (0, 1)),))


def _puts(q: Query[MaxUnpool]) -> Puts:
    steps = Axis(q.inputs[0].count, (1, 1, 0))
    return Puts((), steps, Axis(1, (0, 0, 0)), Coordinates(((q.outputs[0].count, 1),)))
