"""Convolutions of 8-bit integers for NVIDIA GPUs on byxf, by matrix units."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.gpu.quantized_convolution import GPU, ByteProducts, rounded_jit
from clgraph.implementations.gpu.vectors import LANES, WIDE_RANK, wide, wide_view
from clgraph.implementations.gpu.windows import implicit_sizes, tap_table, wide_posts, window_numbers
from clgraph.implementations.matrix_units.nvidia.products import products
from clgraph.implementations.matrix_units.nvidia.tiles import S8, chunk, tile_refusal
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.selector.general import table
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Launch, Plan, Table
from clgraph.selector.query import PTX, Query


@implements(QuantizedConvolution, name="quantized_convolution.nvidia", serves=replace(GPU, features=PTX))
class QuantizedConvolutionNvidia(ByteProducts):
    """Tiles from a pipeline of copies to local memory; sums in int."""

    chunk = chunk(S8)

    @classmethod
    def further_limits(cls, q: Query[QuantizedConvolution]) -> str | None:
        return super().further_limits(q) or tile_refusal(q.device, S8)

    @classmethod
    def cost(cls, q: Query[QuantizedConvolution]) -> float:
        return products(q, S8, implicit_sizes(q)).cost(q, 8.0)

    @classmethod
    def plan(cls, q: Query[QuantizedConvolution]) -> Plan:
        (y,), made = q.outputs, products(q, S8, implicit_sizes(q))
        jit, posts = rounded_jit(q, WIDE_RANK), wide_posts(q)
        word = (q.primitive.zero & 0xFF) * 0x01010101
        edge = Table((word - (word >> 31 << 32),) * 4)
        ends = ("in2", "in3", "in4", "out0")
        numbers = table(*window_numbers(q))
        arguments = ("in0", "in1", *ends, made.parts, numbers, tap_table(q), edge, *posts)

        def ending() -> Launch:
            dims, view = (y.shape[0], *wide(y.shape[2:], 1), y.shape[1] // LANES, 1), wide_view(y, y.shape)
            kernel = "quantized_convolution/quantized_convolution_sum"
            return made.added(kernel, jit, dims, [view], ends, posts)

        kernel = "quantized_convolution/quantized_convolution_nvidia"
        return made.plan(kernel, jit.define(**made.tiling.tile.macros), arguments, ending)
