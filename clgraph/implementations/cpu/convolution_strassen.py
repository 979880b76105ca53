"""1x1 convolutions of blocked tensors on CPU devices by one level of Strassen's algorithm."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.blocked import TILE, bias_alone, wanted_formats, weights_refusal
from clgraph.implementations.cpu.cost import again_seconds, is_far, runs, step_seconds
from clgraph.implementations.cpu.fused_operations import (
    InRegistersFields,
    blocked_posts,
    in_registers,
    in_registers_fields,
    post_refusal,
    residual_overwritten,
)
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    Surface,
    both_blocked_refusal,
    in_planes,
    out_planes,
    surface,
)
from clgraph.implementations.cpu.strassen_sizes import (
    MICROS,
    STRASSEN_FILE,
    strassen_blocking,
    strassen_sizes,
    strassen_tickets,
)
from clgraph.ops.convolution import Convolution
from clgraph.ops.strassen_convolution import StrassenConvolution
from clgraph.ops.strassen_weights import StrassenWeights
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import SOME_MAPS, WINOGRAD, Formats, Implementation, implements
from clgraph.selector.micro_kernels import Micro
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

HIDDEN = 0.5
"""The part of the wait for what a core does not keep that its products do not hide (Sapphire Rapids: 0.35 to 0.65)."""


@descriptor("strassen_sums_fsv16", library="convolution")
class StrassenSumsDesc(InPlanes, Descriptor):
    """Fields as in ``strassen_sums_fsv16.cl``."""

    inp: Pointer
    sums: Pointer
    runs: Int
    stride: Int
    wide: Int
    row_chunks: Int
    image_chunks: Int
    chunks: Int
    ticket_chunks: Int


@descriptor("strassen_fsv16", library="convolution", micros=("micro_strassen",))
class StrassenDesc(InPlanes, OutPlanes, Surface, InRegistersFields, Descriptor):
    """Fields as in ``strassen_fsv16.cl``."""

    inp: Pointer
    sums: Pointer
    weights: Pointer
    bias: Pointer
    out: Pointer
    runs: Int
    copied: Int
    nb: Int
    groups: Int
    ticket_groups: Int
    wide: Int
    row_chunks: Int
    chunks: Int
    ticket_chunks: Int
    spans: Int
    batch_tickets: Int
    id: Int
    lines: Int
    far: Int


@implements(Convolution, name="convolution.strassen_fsv16", serves=TILE, tags={WINOGRAD, SOME_MAPS})
class ConvStrassen(Implementation[Convolution]):
    """Seven products of half the channels for eight, of two rows at a time; 1x1 windows."""

    @classmethod
    def limits(cls, q: Query[Convolution]) -> str | None:
        p, x, y = q.primitive, q.inputs[0], q.outputs[0]
        if not isinstance(p, StrassenConvolution):
            if x.rank != 4 or q.inputs[1].shape[2:] != (1, 1):
                return f"serves 1x1 windows, not {list(q.inputs[1].shape[2:])}"
            if len(set(p.strides)) > 1 or p.groups != 1 or p.bands != 1 or any(map(any, p.pads)):
                return "serves the same stride both ways, without groups and pads"
            if p.exact:
                return "rounds otherwise than the sum of the products"
            if reason := weights_refusal(q, "added up blocks"):
                return reason
        nb, wide = strassen_blocking(q)
        if x.shape[1] % (2 * LANES) or y.shape[1] % (2 * nb * LANES):
            return f"halves whole blocks of channels, not {x.shape[1]} into {y.shape[1]}"
        if y.shape[2] % 2 or not wide:
            return f"serves pairs of rows of equal parts, not maps of {y.shape[2]} by {y.shape[3]}"
        return both_blocked_refusal(q) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return wanted_formats(q)

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        asked: dict[int, Format | Primitive] = {**bias_alone(q)}
        if not isinstance(q.primitive, StrassenConvolution):
            asked[1] = StrassenWeights(strassen_blocking(q)[0])
        return asked

    @classmethod
    def transformed(cls, q: Query[Convolution]) -> Primitive:
        return StrassenConvolution(q.primitive.strides[0])

    @classmethod
    def overwrites(cls, q: Query[Convolution]) -> frozenset[int]:
        return residual_overwritten(q)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        s, t, batch = strassen_sizes(q), strassen_tickets(q), q.outputs[0].shape[0]
        nbytes, weights = q.inputs[0].nbytes // q.primitive.strides[0] ** 2, s.groups * s.group_bytes
        moved = nbytes + sum(x.nbytes for x in (*q.inputs[2:], *q.outputs)) + weights
        chunks, made = s.chunks * batch, s.sum_bytes * batch
        cut = runs(chunks, s.sum_seconds, q.device)
        sums = step_seconds(q.device, s.sum_seconds * chunks, nbytes + made, cut.count)
        products = step_seconds(q.device, s.product_seconds * chunks * s.groups, moved + made, t.count * batch)
        pixels = (s.sum_bytes + (0 if s.copied else nbytes // batch)) / t.chunks.count
        again = again_seconds(q.device, pixels + s.group_bytes, s.groups * t.chunks.count * batch)
        again += again_seconds(q.device, weights, t.chunks.count * batch - 1)
        return sums + products + HIDDEN * again

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        s, t, registers = strassen_sizes(q), strassen_tickets(q), in_registers(q)
        x, y, stride = s.x, s.y, q.primitive.strides[0]
        half, row_chunks, chunks = x.blocks // 2, y.width // s.wide, s.chunks * y.batch
        cut = runs(chunks, s.sum_seconds, q.device)
        first = StrassenSumsDesc(
            inp=x.at("in0"),
            sums=Ref("scratch0"),
            **in_planes(x),
            runs=half,
            stride=stride,
            wide=s.wide,
            row_chunks=row_chunks,
            image_chunks=s.chunks,
            chunks=chunks,
            ticket_chunks=cut.each,
        )
        desc = StrassenDesc(
            inp=x.at("in0"),
            sums=Ref("scratch0"),
            weights=Ref("in1"),
            bias=Ref(q.role(2)),
            out=y.at("out0"),
            **in_planes(x),
            **out_planes(y),
            **surface(y.height, y.width, y.halo),
            runs=half,
            copied=int(s.copied),
            nb=s.nb,
            groups=s.groups,
            ticket_groups=t.groups.each,
            wide=s.wide,
            row_chunks=row_chunks,
            chunks=s.chunks,
            ticket_chunks=t.chunks.each,
            spans=t.chunks.count,
            batch_tickets=t.count,
            id=MICROS.id(q.device.simd, Micro.of(STRASSEN_FILE, NB=s.nb, UR=s.wide)),
            lines=t.lines,
            far=int(is_far(q)),
            **in_registers_fields(q, registers),
        )
        posts = blocked_posts(q, registers.taken)
        steps = (
            Tile("strassen_sums_fsv16", first, cut.count),
            Tile("strassen_fsv16", desc, t.count * y.batch, 4 * 2 * s.nb * s.wide * LANES, posts),
        )
        return Plan(steps, (s.sum_bytes * y.batch,))
