"""Convolutions of plain tensors into blocks on CPU devices: the first layer of a network, and windows without pads."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from clgraph.core.format import Format
from clgraph.implementations.cpu.blocked import (
    TILE,
    packing_refusal,
    plain_input_formats,
    square,
    square_pads,
    with_bias,
)
from clgraph.implementations.cpu.blocks import PLANAR, Block, IdsFields, best_block, ids
from clgraph.implementations.cpu.convolution_weights import weights_waited
from clgraph.implementations.cpu.cost import (
    TicketRanges,
    operand_loads,
    split,
    step_seconds,
    ticket_seconds,
    waited_seconds,
    worker_flops,
)
from clgraph.implementations.cpu.float_end import FloatEndFields, float_end, sums_alone
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    SlidingWindow,
    Surface,
    blocked_refusal,
    out_planes,
    planes,
    surface,
)
from clgraph.ops.convolution import Convolution
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

STAGED_BYTES = 256 * 1024
"""Most scratch for the input under a run of windows, so that it stays in the second-level cache."""


@descriptor("conv_planar", library="convolution", micros=("micro_conv",), any_alignment=True)
class ConvPlanarDesc(InPlanes, OutPlanes, Surface, SlidingWindow, FloatEndFields, IdsFields, Descriptor):
    """Fields as in ``conv_planar.cl``."""

    inp: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    in_height: Int
    in_width: Int
    pad_top: Int
    pad_left: Int
    strip_rows: Int
    strips: Int
    staged: Int
    stage_pitch: Int
    channels: Int
    nb: Int
    groups: Int
    lanes: Int
    row_chunks: Int
    chunk_width: Int
    weight_group: Int


def _block(q: Query[Convolution]) -> Block:
    out, w = q.outputs[0], q.inputs[1].shape
    stride = square(q.primitive.strides)[1]
    rows = q.device.simd, PLANAR, stride, out.shape[-1], -(-w[0] // LANES), prod(w[1:])
    return best_block(*rows, loads=operand_loads(q.device))


def _reach(q: Query[Convolution]) -> tuple[int, int]:
    """Return the input rows and pixels under one window."""
    kernel, dilation = square(q.inputs[1].shape[2:]), square(q.primitive.dilations)
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


def _padded(q: Query[Convolution]) -> bool:
    """Return whether the rows under a window are copied, with zeros around them."""
    return any(map(any, q.primitive.pads))


def _stage_pitch(q: Query[Convolution]) -> int:
    return (q.outputs[0].shape[-1] - 1) * square(q.primitive.strides)[1] + _reach(q)[1]


def _work(q: Query[Convolution]) -> float:
    """Return one worker's seconds for an output row; an input pixel that is not a vector costs a loop of its own."""
    taps = prod(q.inputs[1].shape[1:])
    return (_block(q).cost + 4) * taps * 2 * LANES / worker_flops(q.device)


def _strips(q: Query[Convolution]) -> TicketRanges:
    out = q.outputs[0].shape
    rows, row = (out[2] if len(out) == 4 else 1), _work(q)
    return split(rows, row, ticket_seconds(row * rows * out[0], q.device), q.device.workers)


@implements(Convolution, name="convolution.planar", serves=TILE)
class ConvPlanar(Implementation[Convolution]):
    """Runs register blocks on the input rows of a strip; where there are pads, on a copy with zeros around it."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        x = q.inputs[0]
        if q.primitive.groups > 1:
            return "serves one group"
        if x.rank not in (3, 4):
            return f"serves one or two spatial axes, not an input of rank {x.rank}"
        if not x.format.is_plain or x.all_pitches[-1] != 1:
            return f"requires the input plain, its pixels side by side, not {x}"
        rows = 4 * x.shape[1] * _reach(q)[0] * _stage_pitch(q)
        if rows > STAGED_BYTES and _padded(q):
            return f"copies the rows under a window, {rows} bytes here, and serves at most {STAGED_BYTES}"
        return blocked_refusal(q.outputs[0], "the result") or packing_refusal(q, cls.weights) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return plain_input_formats(q, cls.weights)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format]:
        return with_bias(q, Format(tuple(range(q.inputs[1].rank)), ((0, LANES * _block(q).nb),)))

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        out = planes(q.outputs[0]) if not q.outputs[0].format.is_plain else None
        rows = q.outputs[0].shape[2] if q.outputs[0].rank == 4 else 1
        batch = out.batch if out else q.outputs[0].shape[0]
        tickets = _strips(q).count * batch
        waited = weights_waited(q.device, q.inputs[1].nbytes, 1, 1, tickets)
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs)) - (q.inputs[1].nbytes if waited else 0)
        return waited_seconds(step_seconds(q.device, _work(q) * rows * batch, traffic, tickets), waited)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        x, y, w, p = q.inputs[0], planes(q.outputs[0]), q.inputs[1].shape, q.primitive
        block, strips, reach = _block(q), _strips(q), _reach(q)
        padded = _padded(q)
        stride, dilation, kernel = square(p.strides), square(p.dilations), square(w[2:])
        (pad_top, _), (pad_left, _) = square_pads(p.pads)
        # The list holds the residual too: it is read once from memory either way.
        end = float_end(q, sums_alone(q), y.lanes)
        table = ids(q.device.simd, PLANAR, block.stride, block.nb)
        rows = (strips.each - 1) * stride[0] + reach[0]
        desc = ConvPlanarDesc(
            inp=Ref("in0", 4 * x.origin),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            **table.fields(),
            in_n=x.all_pitches[0],
            in_c=x.all_pitches[1],
            in_y=x.all_pitches[2] if x.rank == 4 else 0,
            in_height=x.shape[2] if x.rank == 4 else 1,
            in_width=x.shape[-1],
            pad_top=pad_top,
            pad_left=pad_left,
            strip_rows=strips.each,
            strips=strips.count,
            staged=int(padded),
            stage_pitch=_stage_pitch(q),
            dilation_y=dilation[0],
            dilation_x=dilation[1],
            stride_y=stride[0],
            stride_x=stride[1],
            channels=w[1],
            kernel_y=kernel[0],
            kernel_x=kernel[1],
            **out_planes(y),
            **surface(y.height, y.width, y.halo),
            nb=block.nb,
            groups=y.blocks // block.nb,
            lanes=y.lanes,
            row_chunks=block.chunks,
            chunk_width=block.chunk_width,
            weight_group=prod(w[1:]) * block.nb * LANES,
            **end.fields(""),
        )
        scratch = 4 * w[1] * rows * _stage_pitch(q) if padded else 0
        tickets = strips.count * y.batch
        return Plan((Tile("conv_planar", desc, tickets, scratch=scratch, post=end.rest),))
