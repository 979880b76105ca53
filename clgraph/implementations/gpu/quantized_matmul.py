"""Matrix products of 8-bit integers for GPUs: pointwise convolutions to every kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.quantized_convolution import GPU, QuantizedConvolutionGpuTiled
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.quantized_matmul import QuantizedMatMul, as_convolution
from clgraph.selector.general import General
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


class Pointwise(General[QuantizedMatMul]):
    """By the kernel of an implementation of convolutions."""

    rounds = True
    convolution: ClassVar[type[General[QuantizedConvolution]]]

    @classmethod
    def further_limits(cls, q: Query[QuantizedMatMul]) -> str | None:
        if any(not x.format.is_plain for slot, x in enumerate((*q.inputs, *q.outputs)) if slot != 1):
            return "requires plain formats, but of constant weights"
        if 1 not in q.constant:
            return "requires constant weights"
        return cls.convolution.further_limits(as_convolution(q))

    @classmethod
    def weights(cls, q: Query[QuantizedMatMul]) -> Mapping[int, Format | Primitive]:
        return {} if q.primitive.transpose_b else {1: Format((1, 0))}

    @classmethod
    def cost(cls, q: Query[QuantizedMatMul]) -> float:
        return cls.convolution.cost(as_convolution(q))

    @classmethod
    def plan(cls, q: Query[QuantizedMatMul]) -> Plan:
        return cls.convolution.plan(as_convolution(q))


@implements(QuantizedMatMul, name="quantized_matmul.gpu_tiled", serves=GPU)
class QuantizedMatMulGpuTiled(Pointwise):
    """Groups of 16 x 16 work-items make 64 x 64 results."""

    convolution = QuantizedConvolutionGpuTiled
