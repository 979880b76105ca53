"""Convolutions for GPUs on channels in vectors: an implicit matrix product, and one for each channel by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from itertools import product
from math import prod

from clgraph.core.format import Format
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.local_tiles import DIRECT, SIDE, LocalTile, best_tile, direct_refusal, tile_refusal
from clgraph.implementations.gpu.vectors import (
    LANES,
    VECTORS,
    WIDE_RANK,
    channels_refusal,
    convolved,
    lanes_of_channels,
    vector_formats,
    vector_jit,
    wide,
    wide_view,
)
from clgraph.ops.convolution import Convolution, bias_numbers
from clgraph.selector.general import General, launch, post_arguments, table
from clgraph.selector.implementation import Formats, implements, roofline
from clgraph.selector.plan import Argument, Launch, Plan, Table
from clgraph.selector.query import Query


class ConvolutionVectors(General[Convolution]):
    """What they have in common: one or two spatial axes, all tensors in one format of channels in vectors."""

    blocked = True

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        x, w = q.own[:2]
        if x.rank > 4:
            return "has one or two spatial axes"
        if 1 not in q.constant:
            return "wants constant weights"
        return channels_refusal(q) or cls.group_limits(q.primitive, w)

    @classmethod
    @abstractmethod
    def group_limits(cls, f: Convolution, w: Layout) -> str | None:
        """Refuse groups that it does not serve."""

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return convolved(q, vector_formats(q.outputs[0].rank))

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        return {1: Format((*range(2, q.own[1].rank), 1, 0))}


@implements(Convolution, name="convolution.gpu_vectors", serves=VECTORS)
class ConvolutionGpuVectors(ConvolutionVectors):
    """Groups of 16 x 16 work-items make 64 or 128 pixels of 64 or 128 outputs; byxf and b_fs_yx_fsv4."""

    @classmethod
    def group_limits(cls, f: Convolution, w: Layout) -> str | None:
        if w.shape[1] % LANES or w.shape[0] // f.groups % LANES:
            return f"wants multiples of {LANES} inputs and outputs a group"
        return None

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        return super().further_limits(q) or tile_refusal(q.device)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return max(roofline(q, 1.0, 0.6), q.device.launch_seconds + _tile(q).seconds)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        (y,), w, f, tile = q.outputs, q.own[1], q.primitive, _tile(q)
        outputs, (height, width) = w.shape[0] // f.groups, wide(y.shape[2:], 1)
        sizes = [w.shape[1], outputs, prod(w.shape[2:]), y.shape[0], height, width]
        rows, columns = tile.sizes
        pixels = y.shape[0] * height * width
        grid = (-(-outputs // columns) * SIDE, -(-pixels // rows) * SIDE, f.groups)
        numbers = table(wide_view(y, y.shape), wide_view(q.own[0], q.own[0].shape), sizes, *convolution_rest(q))
        entry = "convolution_gpu_vectors"
        jit = tile.jit(vector_jit(y.dtype, WIDE_RANK))
        step = Launch(f"convolution/{entry}.cl", entry, jit, grid, (SIDE, SIDE, 1), convolution_arguments(q, numbers))
        return Plan((step,))


@implements(Convolution, name="convolution.gpu_direct", serves=VECTORS)
class ConvolutionGpuDirect(ConvolutionVectors):
    """Four outputs of four pixels a work-item, without local memory; byxf and b_fs_yx_fsv4."""

    group_limits = ConvolutionGpuVectors.group_limits

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        return direct_refusal(q.device) or super().further_limits(q)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return roofline(q, 0.15, 0.6)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        (y,), w, f = q.outputs, q.own[1], q.primitive
        outputs, (height, width) = w.shape[0] // f.groups, wide(y.shape[2:], 1)
        sizes = [w.shape[1], outputs, prod(w.shape[2:]), y.shape[0], height, width]
        views = (wide_view(y, y.shape), wide_view(q.own[0], q.own[0].shape))
        numbers = table(*views, sizes, *convolution_rest(q), f.groups)
        count = w.shape[0] // LANES * -(-y.shape[0] * height * width // DIRECT)
        jit = vector_jit(y.dtype, WIDE_RANK)
        return Plan((launch("convolution/convolution_gpu_direct", jit, count, *convolution_arguments(q, numbers)),))


@implements(Convolution, name="convolution.gpu_depthwise", serves=VECTORS)
class ConvolutionGpuDepthwise(ConvolutionVectors):
    """A vector of channels of a pixel a work-item; byxf and b_fs_yx_fsv4."""

    @classmethod
    def group_limits(cls, f: Convolution, w: Layout) -> str | None:
        return None if w.shape[0] == f.groups and w.shape[1] == 1 else "wants one input and one output a group"

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return roofline(q, 0.2, 0.6)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        x, w, (y,) = q.own[0], q.own[1], q.outputs
        lanes = lanes_of_channels(x, y)
        dims = (y.shape[0], *wide(y.shape[2:], 1), y.shape[1] // lanes, 1)
        numbers = table(
            dims,
            wide_view(y, y.shape, lanes),
            wide_view(x, x.shape, lanes),
            [y.shape[1], prod(w.shape[2:])],
            *convolution_rest(q),
        )
        jit = vector_jit(y.dtype, WIDE_RANK, lanes)
        arguments = convolution_arguments(q, numbers, lanes)
        return Plan((launch("convolution/depthwise_gpu_vectors", jit, prod(dims), *arguments),))


def _tile(q: Query[Convolution]) -> LocalTile:
    (y,), w, groups = q.outputs, q.own[1], q.primitive.groups
    pixels = y.shape[0] * prod(y.shape[2:])
    return best_tile(q.device, pixels, w.shape[0] // groups, prod(w.shape[1:]), groups)


def convolution_rest(q: Query[Convolution]) -> list[tuple[int, ...]]:
    """Return height and width of x, strides, pads before, offset and pitch of the bias."""
    f = q.primitive
    before = tuple(b for b, _ in f.pads)
    bias = bias_numbers(q.own[2] if q.arity > 2 else None)
    return [wide(q.own[0].shape[2:], 1), wide(f.strides, 1), wide(before, 0), bias]


def convolution_arguments(q: Query[Convolution], numbers: Table, lanes: int = LANES) -> tuple[Argument, ...]:
    """Return the tensors, the tables and the post-operations of a kernel that counts blocks of *lanes* channels."""
    (y,), x, f = q.outputs, wide_view(q.own[0], q.own[0].shape), q.primitive
    taps: list[int] = []
    for tap in product(*map(range, q.own[1].shape[2:])):
        down, right = wide(tuple(k * d for k, d in zip(tap, f.dilations, strict=True)), 0)
        taps += [down * x.pitches[1] + right * x.pitches[2], down, right]
    operands = (q.inputs[p.operands[0]] for p in q.post if p.operands)
    views = [wide_view(operand, y.shape, lanes) for operand in operands]
    bias = "in2" if q.arity > 2 else "null"
    return ("in0", "in1", bias, "out0", numbers, Table(tuple(taps)), *post_arguments(q, views, WIDE_RANK))
