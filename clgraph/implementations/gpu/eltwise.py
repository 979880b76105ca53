"""Binary functions for GPUs: a vector of 4 or 8 elements a work-item."""

from __future__ import annotations

from math import prod

from clgraph.implementations.gpu.elementwise import Vectors
from clgraph.implementations.gpu.vectors import VECTORS, vector_jit, vector_space
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.general import launch, post_arguments, table
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query


@implements(Eltwise, name="eltwise.gpu_vectors", serves=VECTORS)
class EltwiseGpuVectors(Vectors[Eltwise]):
    """A vector a work-item, any broadcast."""

    @classmethod
    def plan(cls, q: Query[Eltwise]) -> Plan:
        dims, (y, a, b, *posts), lanes = vector_space(q, [0, 1])
        numbers = table(dims, y, a, b, post_codes()[q.primitive.function])
        jit = vector_jit(q.outputs[0].dtype, len(dims), lanes)
        arguments = ("in0", "in1", "out0", numbers, *post_arguments(q, posts, len(dims)))
        return Plan((launch("eltwise/eltwise_gpu_vectors", jit, prod(dims), *arguments),))
