"""Convolutions of waveforms, plain tensors of one channel and one spatial axis, as products with rows of windows."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import TILE, packing_refusal, plain_input_formats, with_bias
from clgraph.implementations.cpu.blocks import half_cycles
from clgraph.implementations.cpu.convolution_planar import STAGED_BYTES
from clgraph.implementations.cpu.cost import TicketRanges, split, step_seconds, ticket_seconds, worker_flops
from clgraph.implementations.cpu.fused_operations import blocked_posts, in_registers, post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    OutPlanes,
    Surface,
    blocked_refusal,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.matmul_instances import GROUP, widest_instance
from clgraph.ops.convolution import Convolution
from clgraph.selector.descriptor import Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("conv_windows", library="convolution", micros=("micro_matmul",), any_alignment=True)
class ConvWindowsDesc(OutPlanes, Surface, Descriptor):
    """Fields as in ``conv_windows.cl``."""

    inp: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    in_n: Long
    in_width: Int
    pad: Int
    stride: Int
    dilation: Int
    taps: Int
    staged: Int
    ticket_pixels: Int
    spans: Int
    groups: Int
    ticket_groups: Int
    tiers: Int
    blocks: Int
    lanes: Int
    nb: Int
    widest: Int
    first_id: Int
    low: Float
    high: Float


@frozen
class WindowTickets:
    """Runs of pixels of one image, in multiples of an instance's rows, and of groups of output channels."""

    pixels: TicketRanges
    groups: TicketRanges


def _pixel_seconds(q: Query[Convolution]) -> float:
    """Return one worker's time for a pixel of one group of output channels."""
    widest = widest_instance(q.device)
    rows = min(widest.rows, q.outputs[0].shape[2])
    kernel = q.inputs[1].shape[2]
    return (
        kernel
        * half_cycles(widest.nb, rows)
        / rows
        * (GROUP // LANES // widest.nb)
        * 2
        * LANES
        / worker_flops(q.device)
    )


def _floats(q: Query[Convolution], pixels: int) -> int:
    """Return the floats of the input under the windows of so many pixels."""
    p = q.primitive
    return (pixels - 1) * p.strides[0] + (q.inputs[1].shape[2] - 1) * p.dilations[0] + 1


@remembered
def _tickets(q: Query[Convolution]) -> WindowTickets:
    width, groups = q.outputs[0].shape[2], -(-q.outputs[0].shape[1] // GROUP)
    pixel, rows = _pixel_seconds(q), widest_instance(q.device).rows
    wanted = ticket_seconds(pixel * width * groups * q.outputs[0].shape[0], q.device)
    runs = split(-(-width // rows), pixel * rows * groups, wanted, q.device.workers)
    fitting = max(1, (STAGED_BYTES // 4 - _floats(q, 1)) // (q.primitive.strides[0] * rows))
    pixels = min(runs.each, fitting) * rows
    tiers = split(groups, pixel * min(pixels, width), wanted, 1)
    return WindowTickets(TicketRanges(-(-width // pixels), pixels), tiers)


@implements(Convolution, name="convolution.windows", serves=TILE)
class ConvWindows(Implementation[Convolution]):
    """Copies the input under a run of windows to scratch and multiplies, window by window, in register blocks."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        x = q.inputs[0]
        if x.rank != 3 or x.shape[1] != 1:
            return f"serves one channel and one spatial axis, not {x}"
        if not x.format.is_plain or x.all_pitches[-1] != 1:
            return f"requires the input plain, its elements side by side, not {x}"
        if 4 * _floats(q, widest_instance(q.device).rows) > STAGED_BYTES:
            return f"copies the input under a window, and serves at most {STAGED_BYTES} bytes"
        return blocked_refusal(q.outputs[0], "the result") or packing_refusal(q, cls.weights) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return plain_input_formats(q, cls.weights)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format]:
        return with_bias(q, Format(tuple(range(q.inputs[1].rank)), ((0, GROUP),)))

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        batch, outputs, width = q.outputs[0].shape
        tickets = _tickets(q)
        work = _pixel_seconds(q) * width * -(-outputs // GROUP) * batch
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        return step_seconds(q.device, work, traffic, tickets.pixels.count * tickets.groups.count * batch)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        x, y, p = q.inputs[0], planes(q.outputs[0]), q.primitive
        t, widest = _tickets(q), widest_instance(q.device)
        # The list holds the residual too: it is read once from memory either way.
        registers = in_registers(q)
        taken = 0 if registers.residual is not None else registers.taken
        bounds = (registers.low, registers.high) if taken else (float("-inf"), float("inf"))
        staged = -(-_floats(q, min(t.pixels.each, y.width)) // LANES) * LANES
        desc = ConvWindowsDesc(
            inp=Ref("in0", 4 * x.origin),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            in_n=x.all_pitches[0],
            in_width=x.shape[2],
            pad=p.pads[0][0],
            stride=p.strides[0],
            dilation=p.dilations[0],
            taps=q.inputs[1].shape[2],
            staged=staged,
            ticket_pixels=t.pixels.each,
            spans=t.pixels.count,
            groups=-(-y.channels // GROUP),
            ticket_groups=t.groups.each,
            tiers=t.groups.count,
            blocks=y.blocks,
            lanes=y.lanes,
            nb=widest.nb,
            widest=widest.rows,
            first_id=widest.first_id,
            low=bounds[0],
            high=bounds[1],
            **out_planes(y),
            **surface(1, y.width, y.halo),
        )
        scratch = 4 * (staged + widest.rows * GROUP)
        tickets = t.pixels.count * t.groups.count * y.batch
        return Plan((Tile("conv_windows", desc, tickets, scratch=scratch, post=blocked_posts(q, taken)),))
