"""Convolutions for NVIDIA GPUs on byxf: an implicit matrix product with copies under way to local memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.vectors import (
    LANES,
    WIDE_RANK,
    convolved,
    lies_in_vectors,
    vector_jit,
    wide,
    wide_view,
)
from clgraph.implementations.gpu.windows import bias_of, implicit_sizes, tap_table, wide_posts, window_numbers
from clgraph.implementations.matrix_units.nvidia.products import Products, products
from clgraph.implementations.matrix_units.nvidia.scales import scales_of_images
from clgraph.implementations.matrix_units.nvidia.tiles import F16, F16X3, F32, TF32X3, chunk, in_chunks, tile_refusal
from clgraph.ops.convolution import Convolution
from clgraph.selector.general import General, table
from clgraph.selector.implementation import Formats, Serves, implements
from clgraph.selector.plan import Launch, Plan, Table
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import PTX, SM80, Query
from clgraph.selector.views import View

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
            return "requires constant weights"
        last = channels_last(x.rank)
        if odd := [v for v in (x, *q.inputs[q.arity :]) if v.format.blocks]:
            return f"reads no {odd[0].format}"
        if y.format != last:
            return "writes byxf"
        if w.shape[0] // q.primitive.groups % LANES:
            return f"requires multiples of {LANES} outputs a group"
        return cls.input_limits(q, size) or lies_in_vectors(y) or tile_refusal(q.device, cls.product)

    @classmethod
    def input_limits(cls, q: Query[Convolution], size: int) -> str | None:
        """Refuse inputs that 16 bytes, *size* channels, at a time cannot be copied from."""
        x = q.own[0]
        if q.own[1].shape[1] % size:
            return f"requires multiples of {size} inputs a group"
        if x.format != channels_last(x.rank):
            return "requires an input in byxf"
        return in_chunks(x, View(x.origin, x.all_pitches), cls.product)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return convolved(q, [channels_last(q.outputs[0].rank)])

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        return {1: channels_last(q.own[1].rank)}

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return cls.products(q).cost(q, 4.0)

    @classmethod
    def products(cls, q: Query[Convolution]) -> Products:
        """Return the products in the tiles that make them soonest."""
        scales = scales_of_images(*q.own[:2]) if cls.product == F16X3 else None
        return products(q, cls.product, implicit_sizes(q), scales=scales)

    @classmethod
    def terms(cls, q: Query[Convolution], taps: Table) -> Table:
        """Return the table of what k counts: by default the taps."""
        return taps

    @classmethod
    def tensors(cls, made: Products) -> tuple[str, ...]:
        """Return the roles between the result and the tables."""
        return (made.parts, made.largest)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        (y,), made, channels = q.outputs, cls.products(q), q.own[1].shape[1]
        view, source, *rest = window_numbers(q)
        assert isinstance(view, View)
        assert isinstance(source, View)
        scales = made.scales.numbers if made.scales else ()
        numbers = table(view, source, *rest, bias_of(q), channels * source.pitches[-1], scales)
        posts, bias = wide_posts(q), q.role(2)
        arguments = ("in0", "in1", bias, "out0", *cls.tensors(made), numbers, cls.terms(q, tap_table(q)), *posts)

        def ending() -> Launch:
            origin, pitch = bias_of(q)
            over, biased = View(max(origin, 0), (0, 0, 0, LANES * pitch, pitch)), int(q.arity > 2)
            dims = (y.shape[0], *wide(y.shape[2:], 1), y.shape[1] // LANES, 1)
            jit = vector_jit(y.dtype, WIDE_RANK)
            return made.added("matmul/matmul_gpu_sum", jit, dims, [view, over], [bias, "out0"], posts, biased)

        return made.plan(f"convolution/{cls.entry}", made.tiling.tile.jit(y.dtype, WIDE_RANK), arguments, ending)


@implements(Convolution, name="convolution.nvidia_f16", serves=replace(_SERVES, dtypes=frozenset({DType.F16})))
class ConvolutionNvidiaF16(_Nvidia):
    """Halves by matrix units, sums in float."""

    product = F16


@implements(Convolution, name="convolution.nvidia_f32", serves=_SERVES)
class ConvolutionNvidiaF32(_Nvidia):
    """Floats by multiply-adds: every product and sum is one of float32."""

    product = F32


@implements(Convolution, name="convolution.nvidia_tf32x3", serves=replace(_SERVES, features=SM80 | {"tf32x3"}))
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
        return cls.products(q).cost(q, 4.0, _ONE_BY_ONE)

    @classmethod
    def tensors(cls, made: Products) -> tuple[str, ...]:
        return (made.parts,)

    @classmethod
    def terms(cls, q: Query[Convolution], taps: Table) -> Table:
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
