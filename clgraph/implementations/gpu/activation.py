"""Unary functions for GPUs: a vector of 4 or 8 elements a work-item."""

from __future__ import annotations

from math import prod

from clgraph.implementations.gpu.elementwise import Vectors
from clgraph.implementations.gpu.vectors import VECTORS, vector_jit, vector_space
from clgraph.ops.activation import Activation
from clgraph.selector.general import bits, launch, post_arguments, table
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query


@implements(Activation, name="activation.gpu_vectors", serves=VECTORS)
class ActivationGpuVectors(Vectors[Activation]):
    """A vector a work-item."""

    @classmethod
    def plan(cls, q: Query[Activation]) -> Plan:
        dims, (y, x, *posts), lanes = vector_space(q, [0])
        f = q.primitive
        numbers = table(dims, y, x, [post_codes()[f.function], bits(f.alpha), bits(f.beta)])
        jit = vector_jit(q.outputs[0].dtype, len(dims), lanes)
        arguments = ("in0", "out0", numbers, *post_arguments(q, posts, len(dims)))
        return Plan((launch("activation/activation_gpu_vectors", jit, prod(dims), *arguments),))
