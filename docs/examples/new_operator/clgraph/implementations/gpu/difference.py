"""Differences for GPUs: a vector of 4 elements a work-item."""

from __future__ import annotations

from math import prod

from clgraph.implementations.gpu.vectors import LANES, vector_jit
from clgraph.ops.difference import Difference
from clgraph.selector.general import FLOATS, General, launch, post_arguments, post_views, table
from clgraph.selector.views import Space, View, lanes_of, space
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query


def _space(q: Query[Difference]) -> Space:
    """Return the axis, then the others, with views of result, input and operands."""
    x, (y,), axis = q.inputs[0], q.outputs, q.primitive.axis
    others = [a for a in range(x.rank) if a != axis]
    return space(y.shape, [View.of(y), View.of(x), *post_views(q)], [[axis], others])


@implements(
    Difference,
    name="difference.gpu_vectors",
    serves=Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), fuses=FUSABLE),
)
class DifferenceGpuVectors(General[Difference]):
    """Vectors of the elements behind the axis."""

    @classmethod
    def further_limits(cls, q: Query[Difference]) -> str | None:
        s = _space(q)
        return None if lanes_of(s.dims, s.views[:2], LANES) == LANES else "serves whole vectors behind the axis"

    @classmethod
    def cost(cls, q: Query[Difference]) -> float:
        return roofline(q, 0.2, 0.8)

    @classmethod
    def plan(cls, q: Query[Difference]) -> Plan:
        s = _space(q)
        dims = (*s.dims[:-1], s.dims[-1] // LANES)
        posts = post_arguments(q, s.views[2:], len(dims))
        jit = vector_jit(q.outputs[0].dtype, len(dims))
        numbers = table(dims, *s.views[:2])
        return Plan((launch("difference/difference_gpu_vectors", jit, prod(dims), "in0", "out0", numbers, *posts),))
