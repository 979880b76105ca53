"""Convolutions of 8-bit integers for GPUs on byxf: an implicit matrix product, four terms at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.vectors import (
    LANES,
    WIDE_RANK,
    convolved,
    lies_in_vectors,
    vector_jit,
)
from clgraph.implementations.gpu.windows import implicit_sizes, tap_table, wide_posts, window_numbers
from clgraph.ops.quantized_convolution import SERVES, TERMS, QuantizedConvolution, operand_type, unshifted_limits
from clgraph.ops.static_quantize import BYTES
from clgraph.selector.general import General, table
from clgraph.selector.implementation import Formats, implements, roofline
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.query import Query

GPU = replace(SERVES, kinds=frozenset({"gpu"}))
SIDE = 64
"""Pixels, and outputs, of a tile."""
_LOCAL_BYTES = 2 * 16 * (SIDE // 4 + 1) * 16
_DOT, _NO_DOT = 1.4, 0.12
"""Shares of the peak of float32 that products of bytes reach, four at once or one by one. Estimates."""


class ByteProducts(General[QuantizedConvolution]):
    """One or two spatial axes, input and result in byxf, weights ``[O][kh][kw][C]``.

    Attributes:
        chunk: Channels of a group that are read at once.
    """

    blocked = True
    rounds = True
    chunk: ClassVar[int]

    @classmethod
    def further_limits(cls, q: Query[QuantizedConvolution]) -> str | None:
        x, w, (y,) = q.own[0], q.own[1], q.outputs
        if not 3 <= x.rank <= 4:
            return "has one or two spatial axes"
        if 1 not in q.constant:
            return "requires constant weights"
        last = channels_last(x.rank)
        if x.format != last or y.format != last:
            return "requires input and result in byxf"
        if odd := [v for v in q.inputs[q.arity :] if v.format.blocks]:
            return f"reads no {odd[0].format}"
        if w.shape[1] % cls.chunk or w.shape[0] // q.primitive.groups % LANES:
            return f"requires multiples of {cls.chunk} inputs and of {LANES} outputs a group"
        if prod(w.shape[1:]) > TERMS:
            return f"adds up to {TERMS} products in int"
        return unshifted_limits(q) or lies_in_vectors(y) or cls.input_limits(x)

    @classmethod
    def input_limits(cls, x: Layout) -> str | None:
        """Refuse inputs that cannot be read in chunks, or devices without room for a tile."""
        others = (x.origin, x.all_pitches[0], *x.all_pitches[2:])
        if x.all_pitches[1] != 1 or any(p % cls.chunk for p in others):
            return f"requires pixels that start at multiples of {cls.chunk} bytes"
        return None

    @classmethod
    def formats(cls, q: Query[QuantizedConvolution]) -> tuple[Formats, ...]:
        return convolved(q, [channels_last(q.outputs[0].rank)])

    @classmethod
    def weights(cls, q: Query[QuantizedConvolution]) -> Mapping[int, Format | Primitive]:
        return {1: channels_last(q.own[1].rank)}


@implements(QuantizedConvolution, name="quantized_convolution.gpu_tiled", serves=GPU)
class QuantizedConvolutionGpuTiled(ByteProducts):
    """Groups of 16 x 16 work-items make 64 pixels of 64 outputs; ``int_dot`` multiplies four pairs at once."""

    chunk = 4

    @classmethod
    def further_limits(cls, q: Query[QuantizedConvolution]) -> str | None:
        if q.device.max_work_group < 256 or q.device.local_bytes < _LOCAL_BYTES:
            return f"requires groups of 256 work-items with {_LOCAL_BYTES} bytes of local memory"
        return super().further_limits(q)

    @classmethod
    def cost(cls, q: Query[QuantizedConvolution]) -> float:
        device, sizes = q.device, implicit_sizes(q)
        share = _DOT if "int_dot" in device.features else _NO_DOT
        # Whole tiles are computed, as many at once as the device has compute units.
        tiles = -(-sizes.rows // SIDE) * -(-sizes.columns // SIDE) * sizes.count
        work = 2.0 * SIDE * SIDE * -(-sizes.terms // SIDE) * SIDE
        units = max(device.compute_units, 1)
        seconds = -(-tiles // units) * work * units / (device.flops * share)
        return max(roofline(q, share, 0.6), device.launch_seconds + seconds)

    @classmethod
    def plan(cls, q: Query[QuantizedConvolution]) -> Plan:
        sizes, word = implicit_sizes(q), (q.primitive.zero & 0xFF) * 0x01010101
        jit = rounded_jit(q, WIDE_RANK).define(INT_DOT="int_dot" in q.device.features)
        entry = "quantized_convolution_gpu_tiled"
        grid = (-(-sizes.columns // SIDE) * 16, -(-sizes.rows // SIDE) * 16, sizes.count)
        numbers = table(*window_numbers(q), word - (word >> 31 << 32))
        arguments = ("in0", "in1", "in2", "in3", "in4", "out0", numbers, tap_table(q), *wide_posts(q))
        return Plan((Launch(f"quantized_convolution/{entry}.cl", entry, jit, grid, (16, 16, 1), arguments),))


def rounded_jit(q: Query[QuantizedConvolution], rank: int) -> Jit:
    """Return the preamble of a kernel with vectors that ends with ``quantized_end.clh``."""
    (y,), operand = q.outputs, operand_type(q)
    if operand in BYTES:
        jit = Jit().define(RANK=rank, T=operand, **{"LOAD(p, i)": "((float)(p)[i])"})
        read = f"*(__global const {operand.cl}4*)((p) + (i))"
        jit = jit.define(**{"LOAD4(p, i)": f"convert_float4({read})"})
        jit = jit.define(**{"LOAD4_LOOSE(p, i)": "convert_float4(vload4(0, (p) + (i)))"})
    else:
        jit = vector_jit(operand, rank)
    stores = {
        DType.F32: "(*(__global float4*)((p) + (i)) = (v))",
        DType.F16: "vstorea_half4_rte(v, 0, (p) + (i))",
    }
    whole = f"(*(__global {y.dtype.cl}4*)((p) + (i)) = convert_{y.dtype.cl}4_sat(v))"
    return jit.define(OUT=y.dtype, **{"STORE_OUT4(p, i, v)": stores.get(y.dtype, whole)})
