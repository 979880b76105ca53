"""Elementwise operators for GPUs: a vector of 4 or 8 elements a work-item, in any format of whole vectors."""

from __future__ import annotations

from math import prod
from typing import TypeVar

from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gpu_vectors import VECTORS, same_format, vector_formats, vector_jit, vector_refusal, vector_space
from clgraph.selector.general import General, bits, launch, post_arguments, table
from clgraph.selector.implementation import Formats, implements, roofline
from clgraph.selector.plan import Plan
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query

P = TypeVar("P", bound=Primitive)


class _Vectors(General[P]):
    """What the two have in common: whatever the format, each vector is read and written once."""

    blocked = True

    @classmethod
    def further_limits(cls, q: Query[P]) -> str | None:
        function = getattr(q.primitive, "function", "")
        if function not in post_codes():
            return f"has no {function} of floats"
        return vector_refusal(q, range(q.arity))

    @classmethod
    def formats(cls, q: Query[P]) -> tuple[Formats, ...]:
        rank = q.outputs[0].rank
        return same_format(q, (Format.plain(rank), *vector_formats(rank)))

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        return roofline(q, 0.2, 0.8)


@implements(Activation, name="activation.gpu_vectors", serves=VECTORS)
class ActivationGpuVectors(_Vectors[Activation]):
    """A vector a work-item."""

    @classmethod
    def plan(cls, q: Query[Activation]) -> Plan:
        dims, (y, x, *posts), lanes = vector_space(q, [0])
        f = q.primitive
        numbers = table(dims, y, x, [post_codes()[f.function], bits(f.alpha), bits(f.beta)])
        jit = vector_jit(q.outputs[0].dtype, len(dims), lanes)
        arguments = ("in0", "out0", numbers, *post_arguments(q, posts, len(dims)))
        return Plan((launch("activation/activation_gpu_vectors", jit, prod(dims), *arguments),))


@implements(Eltwise, name="eltwise.gpu_vectors", serves=VECTORS)
class EltwiseGpuVectors(_Vectors[Eltwise]):
    """A vector a work-item, any broadcast."""

    @classmethod
    def plan(cls, q: Query[Eltwise]) -> Plan:
        dims, (y, a, b, *posts), lanes = vector_space(q, [0, 1])
        numbers = table(dims, y, a, b, post_codes()[q.primitive.function])
        jit = vector_jit(q.outputs[0].dtype, len(dims), lanes)
        arguments = ("in0", "in1", "out0", numbers, *post_arguments(q, posts, len(dims)))
        return Plan((launch("eltwise/eltwise_gpu_vectors", jit, prod(dims), *arguments),))
