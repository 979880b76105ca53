"""Matrix products of 8-bit integers for NVIDIA GPUs: pointwise convolutions to the kernel."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.gpu.quantized_convolution import GPU
from clgraph.implementations.gpu.quantized_matmul import Pointwise
from clgraph.implementations.matrix_units.nvidia.quantized_convolution import QuantizedConvolutionNvidia
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.selector.implementation import implements
from clgraph.selector.query import PTX


@implements(QuantizedMatMul, name="quantized_matmul.nvidia", serves=replace(GPU, features=PTX))
class QuantizedMatMulNvidia(Pointwise):
    """Tiles from a pipeline of copies to local memory; sums in int."""

    convolution = QuantizedConvolutionNvidia
