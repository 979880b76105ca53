"""Convolutions of 8-bit integers for NVIDIA GPUs on byxf, by matrix units."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.implementations.gpu.quantized_convolution import (
    GPU,
    ByteProducts,
    byte_posts,
    byte_table,
    rounded_jit,
    tap_table,
)
from clgraph.implementations.gpu.vectors import WIDE_RANK, wide
from clgraph.implementations.matrix_units.nvidia.tiles import S8, Tiling, best_tiling, chunk, tile_refusal
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.selector.general import launch, table
from clgraph.selector.implementation import implements, roofline
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
        return max(roofline(q, 8.0, 0.7), q.device.launch_seconds + cls._tiling(q).seconds)

    @classmethod
    def _tiling(cls, q: Query[QuantizedConvolution]) -> Tiling:
        (y,), w, groups = q.outputs, q.own[1], q.primitive.groups
        pixels = y.shape[0] * prod(y.shape[2:])
        device = q.device if q.device.tuning is None else replace(q.device, tuning=None)
        return best_tiling(device, S8, pixels, w.shape[0] // groups, prod(w.shape[1:]), groups)

    @classmethod
    def plan(cls, q: Query[QuantizedConvolution]) -> Plan:
        (y,), w, f, tiling = q.outputs, q.own[1], q.primitive, cls._tiling(q)
        tile, parts, outputs = tiling.tile, tiling.split_k, w.shape[0] // q.primitive.groups
        height, width = wide(y.shape[2:], 1)
        pixels = y.shape[0] * height * width
        jit, numbers, posts = rounded_jit(q, WIDE_RANK), byte_table(q), byte_posts(q)
        word = (f.zero & 0xFF) * 0x01010101
        edge = Table((word - (word >> 31 << 32),) * 4)
        parameters = ("in2", "in3", "in4", "out0")
        entry = "quantized_convolution_nvidia"
        product = Launch(
            f"quantized_convolution/{entry}.cl",
            entry,
            jit.define(**tile.macros, PARTS=parts > 1),
            (-(-pixels // tile.rows) * -(-outputs // tile.columns) * tile.items, parts, f.groups),
            (tile.items, 1, 1),
            ("in0", "in1", *parameters, "scratch0" if parts > 1 else "null", numbers, tap_table(q), edge, *posts),
        )
        if parts == 1:
            return Plan((product,))
        dims = (y.shape[0], height, width, y.shape[1] // 4, 1)
        ends = table(dims, numbers.values[: WIDE_RANK + 1], [parts, y.count])
        kernel = "quantized_convolution/quantized_convolution_sum"
        total = launch(kernel, jit, prod(dims), "scratch0", *parameters, ends, *posts)
        return Plan((product, total), (4 * parts * y.count,))
