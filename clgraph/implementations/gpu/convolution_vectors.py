"""Convolutions for GPUs on channels in vectors: an implicit matrix product, and one for each channel by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
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
from clgraph.implementations.gpu.windows import (
    bias_of,
    convolution_arguments,
    implicit_sizes,
    window_numbers,
    window_steps,
)
from clgraph.ops.convolution import Convolution
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Formats, implements, roofline
from clgraph.selector.plan import Launch, Plan
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
            return "requires constant weights"
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
            return f"requires multiples of {LANES} inputs and outputs a group"
        return None

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        return super().further_limits(q) or tile_refusal(q.device)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return max(roofline(q, 1.0, 0.6), q.device.launch_seconds + _tile(q).seconds)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        sizes, tile = implicit_sizes(q), _tile(q)
        rows, columns = tile.sizes
        grid = (-(-sizes.columns // columns) * SIDE, -(-sizes.rows // rows) * SIDE, sizes.count)
        arguments = convolution_arguments(q, table(*window_numbers(q), bias_of(q)))
        entry = "convolution_gpu_vectors"
        jit = tile.jit(vector_jit(q.outputs[0].dtype, WIDE_RANK))
        return Plan((Launch(f"convolution/{entry}.cl", entry, jit, grid, (SIDE, SIDE, 1), arguments),))


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
        sizes = implicit_sizes(q)
        arguments = convolution_arguments(q, table(*window_numbers(q), bias_of(q), sizes.count))
        count = sizes.columns // LANES * sizes.count * -(-sizes.rows // DIRECT)
        jit = vector_jit(q.outputs[0].dtype, WIDE_RANK)
        return Plan((launch("convolution/convolution_gpu_direct", jit, count, *arguments),))


@implements(Convolution, name="convolution.gpu_depthwise", serves=VECTORS)
class ConvolutionGpuDepthwise(ConvolutionVectors):
    """A vector of channels of a pixel a work-item; byxf and b_fs_yx_fsv4."""

    @classmethod
    def group_limits(cls, f: Convolution, w: Layout) -> str | None:
        return None if w.shape[0] == f.groups and w.shape[1] == 1 else "requires one input and one output a group"

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
            *window_steps(q),
            bias_of(q),
        )
        jit = vector_jit(y.dtype, WIDE_RANK, lanes)
        arguments = convolution_arguments(q, numbers, lanes)
        return Plan((launch("convolution/depthwise_gpu_vectors", jit, prod(dims), *arguments),))


def _tile(q: Query[Convolution]) -> LocalTile:
    return best_tile(q.device, implicit_sizes(q))
