"""Convolutions for NVIDIA GPUs on byxf: an implicit matrix product with copies under way to local memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.convolution_vectors import convolution_arguments, convolution_rest
from clgraph.implementations.gpu.vectors import (
    LANES,
    WIDE_RANK,
    convolved,
    lies_in_vectors,
    vector_jit,
    wide,
    wide_view,
)
from clgraph.implementations.matrix_units.nvidia.tiles import (
    F16,
    F16X3,
    F32,
    LARGEST_BYTES,
    TF32X3,
    Tiling,
    best_tiling,
    chunk,
    in_chunks,
    largest_seconds,
    largest_step,
    tile_refusal,
)
from clgraph.ops.convolution import Convolution
from clgraph.selector.general import General, View, launch, table
from clgraph.selector.implementation import Formats, Serves, implements, roofline
from clgraph.selector.plan import Argument, Launch, Plan, Table
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import PTX, Query

_SERVES = Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"gpu"}), formats=True, fuses=FUSABLE, features=PTX)


MOST_TERMS = 1 << 14
"""Terms of a table."""
_ONE_BY_ONE = 2.0
"""By how much longer a step takes whose elements are read one by one. An estimate."""


class _Nvidia(General[Convolution]):
    """One or two spatial axes, input and result in byxf, weights ``[O][kh][kw][C]``."""

    blocked = True
    product: ClassVar[str]
    entry: ClassVar[str] = "convolution_nvidia"

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        x, w, (y,), size = q.own[0], q.own[1], q.outputs, chunk(cls.product)
        if not 3 <= x.rank <= 4:
            return "has one or two spatial axes"
        if 1 not in q.constant:
            return "wants constant weights"
        last = channels_last(x.rank)
        if odd := [v for v in (x, *q.inputs[q.arity :]) if v.format.blocks]:
            return f"reads no {odd[0].format}"
        if y.format != last:
            return "writes byxf"
        if w.shape[0] // q.primitive.groups % LANES:
            return f"wants multiples of {LANES} outputs a group"
        return cls.input_limits(q, size) or lies_in_vectors(y) or tile_refusal(q.device, cls.product)

    @classmethod
    def input_limits(cls, q: Query[Convolution], size: int) -> str | None:
        """Refuse inputs that 16 bytes, *size* channels, at a time cannot be copied from."""
        x = q.own[0]
        if q.own[1].shape[1] % size:
            return f"wants multiples of {size} inputs a group"
        if x.format != channels_last(x.rank):
            return "wants an input in byxf"
        return in_chunks(x, [View(x.origin, x.all_pitches)], 1, cls.product)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return convolved(q, [channels_last(q.outputs[0].rank)])

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        return {1: channels_last(q.own[1].rank)}

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        before = largest_seconds(q.device, q.own[:2]) if cls.product == F16X3 else 0.0
        return before + max(roofline(q, 4.0, 0.7), q.device.launch_seconds + cls._tiling(q).seconds)

    @classmethod
    def _tiling(cls, q: Query[Convolution]) -> Tiling:
        (y,), w, groups = q.outputs, q.own[1], q.primitive.groups
        pixels = y.shape[0] * prod(y.shape[2:])
        device = q.device if q.device.tuning is None else replace(q.device, tuning=None)
        return best_tiling(device, cls.product, pixels, w.shape[0] // groups, prod(w.shape[1:]), groups)

    @classmethod
    def terms(cls, q: Query[Convolution], taps: Argument) -> Argument:
        """Return the table of what k counts: by default the taps."""
        return taps

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        (y,), w, f, tiling = q.outputs, q.own[1], q.primitive, cls._tiling(q)
        tile, parts, outputs = tiling.tile, tiling.split_k, w.shape[0] // q.primitive.groups
        height, width = wide(y.shape[2:], 1)
        pixels = y.shape[0] * height * width
        view = wide_view(y, y.shape)
        sizes = [w.shape[1], outputs, prod(w.shape[2:]), y.shape[0], height, width]
        source = wide_view(q.own[0], q.own[0].shape)
        numbers = table(view, source, sizes, *convolution_rest(q), w.shape[1] * source.pitches[-1])
        *tensors, _, taps = (found := convolution_arguments(q, numbers))[:6]
        posts = found[6:]
        tiles = -(-pixels // tile.rows) * -(-outputs // tile.columns)
        scratch, before = [4 * parts * y.count] if parts > 1 else [], list[Launch]()
        largest = ("null",) * (cls.entry == _Nvidia.entry)
        if cls.product == F16X3:
            largest = (f"scratch{len(scratch)}",)
            scratch.append(LARGEST_BYTES)
            before = [largest_step(q.own[:2], *largest)]
        product = Launch(
            f"convolution/{cls.entry}.cl",
            cls.entry,
            tile.jit(y.dtype, WIDE_RANK).define(PARTS=parts > 1),
            (tiles * tile.items, parts, f.groups),
            (tile.items, 1, 1),
            (*tensors, "scratch0" if parts > 1 else "null", *largest, numbers, cls.terms(q, taps), *posts),
        )
        if parts == 1:
            return Plan((*before, product), tuple(scratch))
        dims = (y.shape[0], height, width, y.shape[1] // LANES, 1)
        bias = q.own[2] if q.arity > 2 else None
        pitch = bias.all_pitches[0] if bias is not None else 0
        over = View(bias.origin if bias is not None else 0, (0, 0, 0, LANES * pitch, pitch))
        ends = table(dims, view, over, [parts, y.count, int(bias is not None)])
        arguments = ("scratch0", tensors[2], "out0", ends, *posts)
        total = launch("matmul/matmul_gpu_sum", vector_jit(y.dtype, WIDE_RANK), prod(dims), *arguments)
        return Plan((*before, product, total), tuple(scratch))


@implements(Convolution, name="convolution.nvidia_f16", serves=replace(_SERVES, dtypes=frozenset({DType.F16})))
class ConvolutionNvidiaF16(_Nvidia):
    """Halves by matrix units, sums in float."""

    product = F16


@implements(Convolution, name="convolution.nvidia_f32", serves=_SERVES)
class ConvolutionNvidiaF32(_Nvidia):
    """Floats by multiply-adds: every product and sum is one of float32."""

    product = F32


@implements(Convolution, name="convolution.nvidia_tf32x3", serves=replace(_SERVES, features=PTX | {"tf32x3"}))
class ConvolutionNvidiaTf32x3(_Nvidia):
    """Floats by matrix units, each as the sum of two tf32; only where the precision ``tf32x3`` is asked for."""

    product = TF32X3


@implements(Convolution, name="convolution.nvidia_f16x3", serves=replace(_SERVES, features=PTX | {"f16x3"}))
class ConvolutionNvidiaF16x3(_Nvidia):
    """Floats by matrix units, each as the scaled sum of two halves; only where the precision ``f16x3`` is asked for."""

    product = F16X3


class _Gather(_Nvidia):
    """Channels that are no whole chunks, as of a network's first convolution; input in any order of axes."""

    entry = "convolution_nvidia_gather"

    @classmethod
    def input_limits(cls, q: Query[Convolution], size: int) -> str | None:
        channels = q.own[1].shape[1]
        if channels % size == 0:
            return f"is for inputs a group that are no multiples of {size}"
        most = MOST_TERMS // channels
        return None if prod(q.own[1].shape[2:]) <= most else f"counts up to {MOST_TERMS} terms"

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        found = super().formats(q)
        plain = tuple(Formats((Format.plain(q.own[0].rank), *f.inputs[1:]), f.outputs) for f in found)
        return (*plain, *found)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return max(roofline(q, 4.0, 0.7), q.device.launch_seconds + _ONE_BY_ONE * cls._tiling(q).seconds)

    @classmethod
    def terms(cls, q: Query[Convolution], taps: Argument) -> Argument:
        assert isinstance(taps, Table)
        channel, values = wide_view(q.own[0], q.own[0].shape).pitches[-1], list[int]()
        for tap in range(len(taps.values) // 3):
            offset, y, x = taps.values[3 * tap : 3 * tap + 3]
            for c in range(q.own[1].shape[1]):
                values += (offset + c * channel, y, x)
        return Table(tuple(values))


@implements(Convolution, name="convolution.nvidia_gather_f16", serves=replace(_SERVES, dtypes=frozenset({DType.F16})))
class ConvolutionNvidiaGatherF16(_Gather):
    """Halves by matrix units, sums in float."""

    product = F16


@implements(Convolution, name="convolution.nvidia_gather_f32", serves=_SERVES)
class ConvolutionNvidiaGatherF32(_Gather):
    """Floats by multiply-adds."""

    product = F32
