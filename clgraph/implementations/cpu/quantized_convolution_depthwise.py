"""Depthwise convolutions of bytes in blocks on CPU devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.memo import remembered
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.blocked import square, square_pads
from clgraph.implementations.cpu.byte_end_fields import (
    CHANNEL_NUMBERS,
    END_BYTES,
    EXTREMES,
    ByteEnd,
    End,
    EndOperands,
    four_times,
)
from clgraph.implementations.cpu.byte_ends import end_of, listed_of, operand_refs, packed_operands, written
from clgraph.implementations.cpu.byte_operands import BYTE_CONVOLUTION, blocks_refusal, byte_formats, packed_parameters
from clgraph.implementations.cpu.byte_sizes import byte_products
from clgraph.implementations.cpu.cost import TicketRanges, row_strips, step_seconds, ticket_seconds, worker_flops
from clgraph.implementations.cpu.fused_operations import blocked_posts
from clgraph.implementations.cpu.geometry import LANES, planes
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.selector.descriptor import NULL, Descriptor, Float, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("depthwise_bytes", library="bytes")
class DepthwiseBytesDesc(ByteEnd, EndOperands, Descriptor):
    """Fields as in ``depthwise_bytes.cl``."""

    inp: Pointer
    weights: Pointer
    start: Pointer
    scale: Pointer
    bias: Pointer
    out: Pointer
    res: Pointer
    zero_point: Pointer
    in_n: Int
    in_c: Int
    in_y: Int
    in_height: Int
    in_width: Int
    out_n: Int
    out_c: Int
    out_y: Int
    res_n: Int
    res_c: Int
    res_y: Int
    height: Int
    width: Int
    blocks: Int
    lanes: Int
    strips: Int
    strip_rows: Int
    kernel_y: Int
    kernel_x: Int
    stride_y: Int
    stride_x: Int
    dilation_y: Int
    pad_top: Int
    pad_left: Int
    pad: Int
    weight_shift: Int
    mode: Int
    itemsize: Int
    listed: Int
    last: Float


_USUAL, _ROW, _END, _NOTED, _LISTED, _STAGE = 1.5, 3.0, 6.0, 2.0, 6.0, 1.0
"""Multiply-adds of 16 floats that a vector of the result takes: for four taps of a row in windows that have a function
of their own, and in others, beside the sum, where its extremes are noted, for one of a list; and a vector of the input
that is staged. Estimates."""
_USUAL_PAIRS, _END_PAIRS, _STAGE_PAIRS = 3.4, 11.7, {16: 12.3, 8: 5.5}
"""The same without VNNI, where rows are staged in pairs of 16-bit numbers: by SIMD width, in multiply-adds of bytes.
MobileNetV2 on a Xeon and a Zen 5."""

_SCALES = CHANNEL_NUMBERS * LANES * 4
"""Bytes of scale and bias of a block of channels."""


def _row_seconds(q: Query[QuantizedConvolution]) -> float:
    """Return one worker's time for one row of one block of channels."""
    (kernel_y, kernel_x), strides = square(q.inputs[1].shape[2:]), square(q.primitive.strides)
    end = end_of(q)
    listed = len(listed_of(q, end)) if isinstance(end, End) else 0
    usual = (
        kernel_y == kernel_x and kernel_x in (3, 5) and strides in ((1, 1), (2, 2)) and max(q.primitive.dilations) == 1
    )
    taps, last, stage = _USUAL if usual else _ROW, _END, _STAGE
    if "vnni" not in q.device.features:
        each = 1.0 / byte_products(q.device)
        taps = each * _USUAL_PAIRS * (1.0 if usual else _ROW / _USUAL)
        last, stage = each * _END_PAIRS, each * _STAGE_PAIRS[16 if q.device.simd >= LANES else 8]
    elif q.primitive.shift:
        taps *= 2
    each = (
        kernel_y * ((kernel_x + 4) // 4) * taps
        + (_NOTED if isinstance(end, End) and end.mode == EXTREMES else last)
        + _LISTED * listed
        + stage * prod(q.primitive.strides)
    )
    return q.outputs[0].shape[-1] * each * 2 * LANES / worker_flops(q.device)


@remembered
def _strips(q: Query[QuantizedConvolution]) -> TicketRanges:
    n, c, *spatial = q.outputs[0].shape
    rows, row = (spatial[0] if len(spatial) == 2 else 1), _row_seconds(q)
    work = row * rows * n * -(-c // LANES)
    return row_strips(rows, spatial[-1], row, n * -(-c // LANES), ticket_seconds(work, q.device), q.device)


@implements(QuantizedConvolution, name="quantized_convolution.depthwise_bytes", serves=BYTE_CONVOLUTION)
class QuantizedDepthwise(Implementation[QuantizedConvolution]):
    """One channel a group, windows without horizontal dilation."""

    @classmethod
    def limits(cls, q: Query[QuantizedConvolution]) -> str | None:
        x, w, p = q.inputs[0], q.inputs[1], q.primitive
        if x.dtype != DType.U8:
            return f"multiplies u8 by i8, not {x.dtype}"
        if p.groups != x.shape[1] or w.shape[:2] != (x.shape[1], 1):
            return f"serves one channel a group, not {x.shape[1]} to {w.shape[0]} in {p.groups} groups"
        if p.dilations[-1] > 1:
            return "reads neighbours along the rows"
        return blocks_refusal(q)

    @classmethod
    def formats(cls, q: Query[QuantizedConvolution]) -> tuple[Formats, ...]:
        return byte_formats(q)

    @classmethod
    def weights(cls, q: Query[QuantizedConvolution]) -> Mapping[int, Format | Primitive]:
        rank = q.inputs[1].rank
        packed = Format(tuple(range(rank)), ((0, LANES),))
        return {1: packed, **packed_parameters(q), **packed_operands(q, end_of(q))}

    @classmethod
    def cost(cls, q: Query[QuantizedConvolution]) -> float:
        n, c, *spatial = q.outputs[0].shape
        blocks = n * -(-c // LANES)
        work = _row_seconds(q) * blocks * prod(spatial[:-1])
        traffic = sum(x.nbytes for x in (q.inputs[0], *written(q)))
        return step_seconds(q.device, work, traffic, _strips(q).count * blocks)

    @classmethod
    def plan(cls, q: Query[QuantizedConvolution]) -> Plan:
        x, y, p, strips, end = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive, _strips(q), end_of(q)
        assert isinstance(end, End)
        kernel, stride, dilation = square(q.inputs[1].shape[2:]), square(p.strides), square(p.dilations)
        (pad_top, _), (pad_left, _) = square_pads(p.pads)
        res = planes(q.inputs[end.residual]) if end.residual is not None else None
        desc = DepthwiseBytesDesc(
            inp=x.at("in0"),
            weights=Ref("in1"),
            start=Ref("in2"),
            scale=Ref("in3"),
            bias=Ref("in4"),
            out=y.at("out0"),
            res=NULL if res is None else res.at(f"in{end.residual}"),
            zero_point=Ref(q.role(5)),
            in_n=x.n,
            in_c=x.c,
            in_y=x.y,
            in_height=x.height,
            in_width=x.width,
            out_n=y.n,
            out_c=q.outputs[0].shape[1] if end.mode == EXTREMES else y.c,
            out_y=y.y,
            res_n=0 if res is None else res.n,
            res_c=0 if res is None else res.c,
            res_y=0 if res is None else res.y,
            height=y.height,
            width=y.width,
            blocks=y.blocks,
            lanes=y.lanes,
            strips=strips.count,
            strip_rows=strips.each,
            kernel_y=kernel[0],
            kernel_x=kernel[1],
            stride_y=stride[0],
            stride_x=stride[1],
            dilation_y=dilation[0],
            pad_top=pad_top,
            pad_left=pad_left,
            pad=four_times(p.zero),
            weight_shift=p.shift,
            mode=end.mode,
            itemsize=y.itemsize,
            listed=int(end.last > 0),
            last=end.last,
            **operand_refs(q, end),
            **end.numbers,
        )
        # Rows are summed in pairs, also the last one.
        rows = -(-strips.each // 2) * 2 * stride[0] + (kernel[0] - 1) * dilation[0] + 1
        pixels = (-(-y.width // 4) * 4 - 1) * stride[1]
        if "vnni" in q.device.features:
            groups = (kernel[1] + 4) // 4
            ordered, row = kernel[0] * groups * 128 * (2 if p.shift else 1), (4 * groups + 5) * LANES
            staged = max(rows * (pixels * LANES + groups * 64 + 64), row)
        else:
            ordered = 2 * (((kernel[0] - 1) * dilation[0] + 1) // 2 + 1) * kernel[1] * 64
            staged = (rows // 2 + 1) * (pixels + kernel[1]) * 64
        scratch = END_BYTES + _SCALES + ordered + staged + 2 * (y.width + 3) * LANES * 4 * (end.last > 0)
        posts = blocked_posts(replace(q, fused=listed_of(q, end)))
        return Plan((Tile("depthwise_bytes", desc, y.batch * y.blocks * strips.count, scratch, posts),))
