"""Convolutions of blocked tensors on CPU devices: dense ones and those in groups of whole blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from clgraph.core.format import Format
from clgraph.core.layout import Halo
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.block_tickets import BlockTickets, BlockTicketsFields, block_tickets_fields
from clgraph.implementations.cpu.blocked import (
    TILE,
    packed_blocks,
    packing_refusal,
    square,
    square_pads,
    wanted_formats,
    with_bias,
)
from clgraph.implementations.cpu.blocks import BLOCKED, IdsFields, ids
from clgraph.implementations.cpu.convolution_sizes import (
    ConvolutionSizes,
    cheapest_sizes,
    row_seconds,
    sizes_of,
    waited_for_weights,
    weights_outweigh,
)
from clgraph.implementations.cpu.convolution_weights import FETCHED_WEIGHTS, weight_distance
from clgraph.implementations.cpu.cost import (
    is_far,
    map_parts,
    split,
    step_seconds,
    ticket_seconds,
    waited_seconds,
)
from clgraph.implementations.cpu.float_end import FloatEndFields, float_end
from clgraph.implementations.cpu.fused_operations import (
    ResidualFields,
    in_registers,
    post_refusal,
    residual_fields,
    residual_overwritten,
)
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    SlidingWindow,
    Surface,
    both_blocked_refusal,
    halo_refusal,
    out_planes,
    surface,
    window,
)
from clgraph.implementations.cpu.window_padding import own_halo, present_halo
from clgraph.ops.convolution import APART, Convolution
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("conv_fsv16", library="direct", micros=("micro_conv",))
class ConvFsv16Desc(
    InPlanes,
    OutPlanes,
    Surface,
    SlidingWindow,
    ResidualFields,
    FloatEndFields,
    BlockTicketsFields,
    IdsFields,
    Descriptor,
):
    """Fields as in ``conv_fsv16.cl``."""

    inp: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    last_widths: Long
    last_ids_0: Long
    last_ids_1: Long
    in_g: Int
    in_x: Int
    step_y: Int
    step_x: Int
    channels: Int
    band_in: Int
    band_out: Int
    shuffled: Int
    outputs: Int
    in_height: Int
    in_width: Int
    pad_y: Int
    pad_x: Int
    pad: Int
    skips: Int
    blocks: Int
    groups: Int
    group_groups: Int
    lanes: Int
    lines: Int
    distance: Int
    weight_group: Int
    weight_ahead: Int
    far: Int


def _tickets(q: Query[Convolution], s: ConvolutionSizes) -> BlockTickets:
    """Cut the work: by output channels where the weights outweigh the pixels, else by pixels.

    Small maps have weights that come from memory once: a ticket takes all pixels of an output group and fetches the
    next group's weights while it computes; of maps that are worth sharing, all pixels of its worker's part. Large maps
    keep their weights cached.
    """
    device, total_groups = q.device, s.groups
    rows = s.height
    chunks = s.block.chunks * rows
    work = row_seconds(q, s) * rows * q.primitive.groups
    chunk = work / (chunks * total_groups)
    wanted = ticket_seconds(work * s.y.batch, device)
    if total_groups >= 4 * device.workers and weights_outweigh(s):
        parts = map_parts(s.height * s.width, chunks, s.y.batch, device)
        groups = split(total_groups, chunk * parts.each, wanted, device.workers // parts.count)
        lines = -(-LANES * s.block.nb // parts.each) if s.group_bytes * total_groups > FETCHED_WEIGHTS else 0
        return BlockTickets(parts, groups, parts.count == 1, lines)
    runs = split(chunks, chunk, wanted, device.workers)
    groups = split(total_groups, chunk * runs.each, wanted, 1)
    return BlockTickets(runs, groups, False)


@remembered
def _halo(q: Query[Convolution]) -> Halo:
    """Return the zeros that the windows reach into, as far as they are read."""
    return own_halo(q) if cheapest_sizes(q).present == 1 else present_halo(own_halo(q), q.primitive.strides)


@implements(Convolution, name="convolution.fsv16", serves=replace(TILE, meets=frozenset({APART})))
class ConvFsv16(Implementation[Convolution]):
    """Register blocks of 16-channel vectors; any kernel, stride, dilation and pads."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        x, out = q.inputs[0], q.outputs[0]
        groups = q.primitive.groups
        if groups > 1 and q.primitive.bands > 1:
            return "serves groups or bands, not both"
        if q.primitive.apart and x.nbytes > 1 << 32:
            return f"counts the floats of an image of merged groups in 32 bits, and the input has {x.nbytes} bytes"
        if groups > 1 and (x.shape[1] // groups % LANES or out.shape[1] // groups % LANES):
            return f"serves groups of whole {LANES}-channel blocks, not {x.shape[1]} channels in {groups} groups"
        return (
            both_blocked_refusal(q) or packing_refusal(q, cls.weights) or halo_refusal(x, _halo(q)) or post_refusal(q)
        )

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return wanted_formats(q, cls.weights)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format]:
        return with_bias(q, packed_blocks(q.inputs[1].rank, sizes_of(q).block.nb))

    @classmethod
    def halo(cls, q: Query[Convolution]) -> Mapping[int, Halo]:
        return {0: _halo(q)}

    @classmethod
    def overwrites(cls, q: Query[Convolution]) -> frozenset[int]:
        return residual_overwritten(q)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        s = sizes_of(q)
        batch, waited = s.y.batch, waited_for_weights(q, s)
        work = row_seconds(q, s) * s.height * q.primitive.groups * batch
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs)) - (q.inputs[1].nbytes if waited else 0)
        return waited_seconds(step_seconds(q.device, work, traffic, _tickets(q, s).count * batch), waited)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        s = sizes_of(q)
        t, registers = _tickets(q, s), in_registers(q)
        x, y, p, skips = s.x, s.y, q.primitive, s.present < 1
        dilation, ((pad_y, _), (pad_x, _)) = square(p.dilations), square_pads(p.pads)
        end = float_end(q, registers, y.lanes)
        table = ids(q.device.simd, BLOCKED, s.block.stride, s.block.nb)
        last = ids(q.device.simd, BLOCKED, s.block.stride, s.block.nb, s.block.last)
        groups = s.groups
        weight_group = s.group_bytes // 4
        steps = -(-s.channels // LANES) * prod(s.kernel)
        desc = ConvFsv16Desc(
            inp=x.at("in0") if skips else x.at("in0", -pad_y, -pad_x),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            **table.fields(),
            **last.fields("last_"),
            in_n=x.n,
            in_g=x.c * (s.channels // LANES),
            in_c=x.c,
            in_y=dilation[0] * x.y,
            in_x=dilation[1] * LANES,
            step_y=s.stride[0] * x.y,
            step_x=s.stride[1] * LANES,
            **out_planes(y),
            channels=s.channels,
            band_in=s.channels // p.bands if p.apart else 0,
            band_out=y.channels // p.bands if p.apart else 0,
            shuffled=p.shuffled,
            outputs=y.channels,
            **window(s.kernel, s.stride, dilation),
            in_height=x.height,
            in_width=x.width,
            pad_y=pad_y,
            pad_x=pad_x,
            pad=pad_y * x.y + pad_x * LANES,
            skips=int(skips),
            **surface(s.height, s.width, y.halo),
            **block_tickets_fields(s.block, s.height, t),
            blocks=s.blocks * p.groups,
            groups=groups,
            group_groups=groups // p.groups,
            lanes=y.lanes,
            lines=t.lines,
            distance=weight_distance(weight_group, t.chunks.each),
            weight_group=weight_group,
            weight_ahead=steps * t.lines * LANES,
            far=int(is_far(q)),
            **residual_fields(q, registers),
            **end.fields(""),
        )
        listed = 12 * x.channels if p.apart else 12 * steps if skips else 0
        return Plan((Tile("conv_fsv16", desc, t.count * y.batch, listed, end.rest),))
