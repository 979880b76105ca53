"""3x3 convolutions of blocked tensors on CPU devices by Winograd's algorithm, in one step or in two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clgraph.core.format import Format
from clgraph.core.layout import Halo
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.blocked import TILE, bias_alone, wanted_formats, weights_refusal
from clgraph.implementations.cpu.blocks import BLOCKED, IdsFields, ids
from clgraph.implementations.cpu.cost import OWN_CACHE
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
    Surface,
    both_blocked_refusal,
    halo_refusal,
    in_planes,
    out_planes,
    surface,
)
from clgraph.implementations.cpu.winograd_sizes import input_runs, tile_halo, winograd_sizes
from clgraph.ops.convolution import Convolution
from clgraph.ops.winograd_convolution import WinogradConvolution
from clgraph.ops.winograd_weights import WinogradWeights
from clgraph.selector.descriptor import NULL, Descriptor, Int, Long, Pointer, Ref, descriptor, fields
from clgraph.selector.implementation import WINOGRAD, Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

PREFETCHED = 1 << 16
"""Bytes of weights on their way from memory, or in the second-level cache and not yet used."""


@fields
class Tiles:
    """Where tiles lie in the maps, and transformed ones in memory: floats from one position, block to the next."""

    v_position: Long
    v_block: Long
    tiles: Int
    image_tiles: Int
    tiles_x: Int
    dilation: Int
    phase_rows: Int
    edge: Int
    block_tiles: Int


@descriptor("winograd_input_fsv16", library="convolution")
class WinogradInputDesc(InPlanes, Tiles, Descriptor):
    """Fields as in ``winograd_input_fsv16.cl``."""

    inp: Pointer
    v: Pointer
    blocks: Int
    ticket_blocks: Int
    runs: Int


@descriptor("winograd_fsv16", library="convolution", micros=("micro_conv",))
class WinogradDesc(InPlanes, OutPlanes, Surface, Tiles, ResidualFields, FloatEndFields, IdsFields, Descriptor):
    """Fields as in ``winograd_fsv16.cl``."""

    inp: Pointer
    v: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    m_position: Long
    weight_position: Long
    weight_ahead: Long
    channels: Int
    blocks: Int
    ticket_blocks: Int
    spans: Int
    nb: Int
    groups: Int
    ticket_groups: Int
    lanes: Int
    lines: Int


@implements(Convolution, name="convolution.winograd_fsv16", serves=TILE, tags={WINOGRAD})
class ConvWinograd(Implementation[Convolution]):
    """Tiles of 4x4 pixels with a quarter of the products, with stride 2 of 2x2 with 25 for 36; 3x3 windows.

    Dilated ones are convolutions of the phases, the images of the pixels that are so many apart.
    """

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        p, x = q.primitive, q.inputs[0]
        if not isinstance(p, WinogradConvolution):
            if x.rank != 4 or q.inputs[1].shape[2:] != (3, 3):
                return f"serves 3x3 windows, not {list(q.inputs[1].shape[2:])}"
            if p.strides not in ((1, 1), (2, 2)) or p.groups != 1:
                return "serves strides of 1 and 2, the same both ways, without groups"
            if len(set(p.dilations)) > 1 or p.dilations[0] > 1 < p.strides[0]:
                return f"serves dilations that are the same both ways, with stride 1, not {list(p.dilations)}"
            if p.exact:
                return "rounds otherwise than the sum of the products"
            if reason := weights_refusal(q, "transformed blocks"):
                return reason
        return both_blocked_refusal(q) or halo_refusal(x, tile_halo(q)) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return wanted_formats(q)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        asked: dict[int, Format | Primitive] = {**bias_alone(q)}
        if not isinstance(q.primitive, WinogradConvolution):
            asked[1] = WinogradWeights(winograd_sizes(q).blocking.nb, q.primitive.strides[0])
        return asked

    @classmethod
    def transformed(cls, q: Query[Convolution]) -> Primitive:
        p = q.primitive
        return WinogradConvolution(p.pads, q.outputs[0].shape[1], p.strides[0], p.dilations[0])

    @classmethod
    def halo(cls, q: Query[Convolution]) -> Mapping[int, Halo]:
        return {0: tile_halo(q)}

    @classmethod
    def overwrites(cls, q: Query[Convolution]) -> frozenset[int]:
        return residual_overwritten(q)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return winograd_sizes(q).blocking.seconds

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        s, registers = winograd_sizes(q), in_registers(q)
        end = float_end(q, registers, s.y.lanes)
        x, y, blocking, (pad_y, pad_x) = s.x, s.y, s.blocking, q.primitive.pads
        inp = x.at("in0", -pad_y[0], -pad_x[0])
        v_position = blocking.v_position(x.blocks)
        v_block = blocking.positions * v_position
        tiles: dict[str, Any] = {
            "v_position": v_position,
            "v_block": v_block,
            "tiles": s.tiles,
            "image_tiles": s.tiles_y * s.tiles_x,
            "tiles_x": s.tiles_x,
            "dilation": s.dilation,
            "phase_rows": s.phase_rows,
            "edge": s.edge,
            "block_tiles": blocking.size,
        }
        table = ids(q.device.simd, BLOCKED, 1, blocking.nb)
        weight_position = x.blocks * LANES * blocking.nb * LANES
        cold = not blocking.fused and 4 * blocking.positions * weight_position * blocking.groups > OWN_CACHE
        desc = WinogradDesc(
            inp=inp if blocking.fused else NULL,
            v=NULL if blocking.fused else Ref("scratch0"),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            **table.fields(),
            m_position=blocking.m_position,
            weight_position=weight_position,
            weight_ahead=max(1, PREFETCHED // (4 * weight_position)) * weight_position,
            **in_planes(x),
            **out_planes(y),
            channels=x.channels,
            **tiles,
            blocks=blocking.blocks,
            ticket_blocks=blocking.each,
            spans=blocking.spans,
            nb=blocking.nb,
            groups=blocking.groups,
            ticket_groups=blocking.groups if blocking.fused else 1,
            lanes=y.lanes,
            lines=-(-LANES * blocking.nb // blocking.each) if cold else 0,
            **surface(y.height, y.width, y.halo),
            **residual_fields(q, registers),
            **end.fields(""),
        )
        tickets = blocking.spans * (1 if blocking.fused else blocking.groups)
        products = Tile("winograd_fsv16", desc, tickets, blocking.scratch_bytes(x.blocks), end.rest)
        if blocking.fused:
            return Plan((products,))
        runs = input_runs(q.device, x.blocks, blocking)
        first = WinogradInputDesc(
            inp=inp,
            v=Ref("scratch0"),
            **in_planes(x),
            **tiles,
            blocks=x.blocks,
            ticket_blocks=runs.each,
            runs=runs.count,
        )
        transform = Tile("winograd_input_fsv16", first, blocking.blocks * runs.count)
        return Plan((transform, products), (4 * v_block * blocking.blocks,))
