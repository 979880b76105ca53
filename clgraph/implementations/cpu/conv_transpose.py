"""Transposed convolutions of blocked tensors on CPU devices."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from clgraph.core.format import Format
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import (
    TILE,
    packing_refusal,
    square,
    square_pads,
    wanted_formats,
    with_bias,
)
from clgraph.implementations.cpu.blocks import BLOCKED, Block, IdsFields, best_block, ids
from clgraph.implementations.cpu.cost import (
    TicketRanges,
    operand_loads,
    split,
    step_seconds,
    ticket_seconds,
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
    both_blocked_refusal,
    in_planes,
    out_planes,
    planes,
    surface,
    window,
)
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("conv_transpose_fsv16", library="direct", micros=("micro_conv",))
class ConvTransposeFsv16Desc(InPlanes, OutPlanes, Surface, SlidingWindow, FloatEndFields, IdsFields, Descriptor):
    """Fields as in ``conv_transpose_fsv16.cl``."""

    inp: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    channels: Int
    pad_y: Int
    pad_x: Int
    nb: Int
    groups: Int
    in_height: Int
    in_width: Int
    lanes: Int
    strips: Int
    strip_rows: Int
    widest: Int
    weight_tap: Int


@remembered
def _block(q: Query[ConvTranspose]) -> Block:
    w, width = q.inputs[1].shape, q.outputs[0].shape[-1]
    phase = -(-width // q.primitive.strides[-1])
    return best_block(q.device.simd, BLOCKED, 1, phase, -(-w[1] // LANES), w[0], loads=operand_loads(q.device))


def _row_seconds(q: Query[ConvTranspose], block: Block) -> float:
    """Return one worker's time for a row of one output group."""
    w, p = q.inputs[1].shape, q.primitive
    groups = -(-w[1] // LANES) // block.nb
    taps = max(1.0, prod(w[2:]) / prod(p.strides)) * w[0] * p.strides[-1]
    return block.cost / groups * taps * 2 * LANES / worker_flops(q.device)


def _strips(q: Query[ConvTranspose], block: Block) -> TicketRanges:
    n, c, *spatial = q.outputs[0].shape
    rows, row = (spatial[0] if len(spatial) == 2 else 1), _row_seconds(q, block)
    work = row * rows * n * -(-c // LANES) / block.nb
    return split(rows, row, ticket_seconds(work, q.device), q.device.workers)


@implements(ConvTranspose, name="conv_transpose.fsv16", serves=TILE)
class ConvTransposeFsv16(Implementation[ConvTranspose]):
    """The taps that reach one phase of a row as 1x1 convolutions of input rows, one on top of the other."""

    @classmethod
    def limits(cls, q: Query[ConvTranspose]) -> str | None:
        if q.primitive.groups > 1:
            return "serves one group"
        return both_blocked_refusal(q) or packing_refusal(q, cls.weights) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[ConvTranspose]) -> tuple[Formats, ...]:
        return wanted_formats(q, cls.weights) if q.outputs[0].rank in (3, 4) else ()

    @classmethod
    def weights(cls, q: Query[ConvTranspose]) -> Mapping[int, Format]:
        rank = q.inputs[1].rank
        return with_bias(q, Format((1, *range(2, rank), 0), ((0, LANES), (1, LANES * _block(q).nb))))

    @classmethod
    def cost(cls, q: Query[ConvTranspose]) -> float:
        n, c, *spatial = q.outputs[0].shape
        block = _block(q)
        groups = n * -(-c // LANES) // block.nb
        rows = spatial[0] if len(spatial) == 2 else 1
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        work = _row_seconds(q, block) * rows * groups
        return step_seconds(q.device, work, traffic, _strips(q, block).count * groups)

    @classmethod
    def plan(cls, q: Query[ConvTranspose]) -> Plan:
        x, y, p, w = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive, q.inputs[1].shape
        block = _block(q)
        strips, table = _strips(q, block), ids(q.device.simd, BLOCKED, block.stride, block.nb)
        kernel, stride, dilation = square(w[2:]), square(p.strides), square(p.dilations)
        (pad_y, _), (pad_x, _) = square_pads(p.pads)
        phase, end = -(-y.width // stride[1]), float_end(q, sums_alone(q), y.lanes)
        desc = ConvTransposeFsv16Desc(
            inp=x.at("in0"),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            **table.fields(),
            **in_planes(x),
            in_height=x.height,
            in_width=x.width,
            **out_planes(y),
            **surface(y.height, y.width, y.halo),
            channels=w[0],
            **window(kernel, stride, dilation),
            pad_y=pad_y,
            pad_x=pad_x,
            nb=block.nb,
            groups=y.blocks // block.nb,
            lanes=y.lanes,
            strips=strips.count,
            strip_rows=strips.each,
            widest=block.chunk_width or -(-phase // block.chunks),
            weight_tap=-(-w[0] // LANES) * LANES * LANES * block.nb,
            **end.fields(""),
        )
        scratch = 4 * block.nb * phase * LANES
        tickets = y.batch * (y.blocks // block.nb) * strips.count
        return Plan((Tile("conv_transpose_fsv16", desc, tickets, scratch=scratch, post=end.rest),))
