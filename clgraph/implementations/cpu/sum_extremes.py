"""Extremes of the sums of convolutions of bytes on CPU devices: their tiles, which write nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.byte_operands import BYTE_TILE
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.quantized_convolution import QuantizedConvolutionBytes
from clgraph.implementations.cpu.quantized_convolution_depthwise import QuantizedDepthwise
from clgraph.ops.sum_extremes import SumExtremes
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_SERVES = replace(BYTE_TILE, fuses=frozenset())
_STEP = 1e-7
"""Seconds of the steps in front and behind. An estimate."""
_SLOWER, _SLOWER_DENSE = 1.75, 1.3
"""How many times as long as estimated sums take that are noted: of depthwise windows, most of which is staging them,
and without VNNI dense ones. MobileNetV2: with VNNI on a Xeon; without, AVX-512 kernels, depthwise windows 1.7 to 3.4
times on an EPYC, dense convolutions 1.8 times there and 0.6 to 1.1 times on a Zen 5."""


@descriptor("channel_sums", library="bytes", any_alignment=True)
class ChannelSumsDesc(Descriptor):
    """Fields as in ``channel_sums.cl``."""

    noted: Pointer
    scale: Pointer
    bias: Pointer
    channels: Int
    begin: Int


def _products(q: Query[SumExtremes]) -> Query[Any]:
    """Return the problem whose results, in blocks, are not written."""
    (y,) = q.primitive.window.infer(q.inputs[:2])
    return replace(q, outputs=(Layout(DType.F32, y.shape, feature_blocked(y.rank)),))


class _Noted(Implementation[SumExtremes]):
    """The tiles of *convolution*, whose last step is left out."""

    convolution: ClassVar[type[Implementation[Any]]]

    @classmethod
    def limits(cls, q: Query[SumExtremes]) -> str | None:
        if not q.outputs[0].is_dense_plain:
            return f"writes one number after the other, not {q.outputs[0]}"
        return cls.convolution.limits(_products(q))

    @classmethod
    def formats(cls, q: Query[SumExtremes]) -> tuple[Formats, ...]:
        of = cls.convolution.formats(_products(q))
        return tuple(Formats(f.inputs, (Format.plain(q.outputs[0].rank),)) for f in of)

    @classmethod
    def weights(cls, q: Query[SumExtremes]) -> Mapping[int, Format | Primitive]:
        return cls.convolution.weights(_products(q))

    @classmethod
    def cost(cls, q: Query[SumExtremes]) -> float:
        return cls.convolution.cost(_products(q)) + 2 * step_seconds(q.device, _STEP, 0, 1)

    @classmethod
    def plan(cls, q: Query[SumExtremes]) -> Plan:
        channels = q.outputs[0].shape[1]
        (noting,) = cls.convolution.plan(_products(q)).steps
        begin, end = (ChannelSumsDesc(Ref("out0"), Ref("in3"), Ref("in4"), channels, b) for b in (1, 0))
        return Plan((Tile("channel_sums", begin, 1), noting, Tile("channel_sums", end, 1)))


@implements(SumExtremes, name="sum_extremes.bytes_fsv16", serves=_SERVES)
class SumExtremesBytes(_Noted):
    """As ``quantized_convolution.bytes_fsv16``."""

    convolution = QuantizedConvolutionBytes

    @classmethod
    def cost(cls, q: Query[SumExtremes]) -> float:
        return (1.0 if "vnni" in q.device.features else _SLOWER_DENSE) * super().cost(q)


@implements(SumExtremes, name="sum_extremes.depthwise_bytes", serves=_SERVES)
class SumExtremesDepthwise(_Noted):
    """As ``quantized_convolution.depthwise_bytes``."""

    convolution = QuantizedDepthwise

    @classmethod
    def cost(cls, q: Query[SumExtremes]) -> float:
        return _SLOWER * super().cost(q)
