"""The best elements along an axis on GPUs: each work-item counts those that are better than its own."""

from __future__ import annotations

from dataclasses import replace

from clgraph.ops.top_k import SERVES, TopK, TopKLine
from clgraph.selector.general import launch
from clgraph.selector.implementation import implements, roofline
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@implements(TopK, name="top_k.gpu_ranks", serves=replace(SERVES, kinds=frozenset({"gpu"})))
class TopKRanks(TopKLine):
    """One work-item an element, which counts those that are better; on GPUs that is faster than the way to the host."""

    @classmethod
    def further_limits(cls, q: Query[TopK]) -> str | None:
        long = q.inputs[0].shape[q.primitive.axis] > 1 << 16
        return "counts along an axis of up to 65536 elements" if long else None

    @classmethod
    def cost(cls, q: Query[TopK]) -> float:
        count, size = q.inputs[0].count, q.inputs[0].shape[q.primitive.axis]
        return roofline(q, q.device.costs.general_compute) + 4.0 * count * size / q.device.flops

    @classmethod
    def plan(cls, q: Query[TopK]) -> Plan:
        _, numbers, jit = cls.numbers(q, axis_last=True)
        return Plan((launch("top_k/top_k_gpu_ranks", jit, q.inputs[0].count, "in0", "out0", "out1", numbers),))
