"""Casts of plain tensors, line by line."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.ops.reorder import Reorder, conversion
from clgraph.selector.general import General, launch, lines, table
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

_FASTER = 4.0
"""Times the rate of the general implementation, which finds the place of every element. An estimate."""


@implements(Reorder, name="reorder.lines", serves=Serves(dtypes=frozenset(DType), mixed=True))
class ReorderLines(General[Reorder]):
    """One work-item a line of neighbours, any rank."""

    @classmethod
    def further_limits(cls, q: Query[Reorder]) -> str | None:
        x, y = q.inputs[0].dtype, q.outputs[0].dtype
        if DType.F64 in (x, y) and "fp64" not in q.device.features:
            return "needs fp64 to convert doubles"
        return "converts element types" if x == y else None

    @classmethod
    def cost(cls, q: Query[Reorder]) -> float:
        costs = q.device.costs
        return roofline(q, min(_FASTER * costs.general_compute, 1.0), min(_FASTER * costs.general_traffic, 1.0))

    @classmethod
    def plan(cls, q: Query[Reorder]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        s = space(y.shape, [View.of(y), View.of(x)])
        count, dims = lines(s, q)
        jit = conversion(x.dtype, y.dtype, q.primitive).define(RANK=len(s.dims))
        return Plan((launch("reorder/reorder_lines", jit, count, "in0", "out0", table(dims, *s.views)),))
