"""Convolutions of halves on the matrix units of Intel's and AMD's GPUs, on byxf: an implicit matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Primitive
from clgraph.ops.convolution import Convolution
from clgraph.ops.convolution_gpu_vectors import convolution_arguments, convolution_rest
from clgraph.ops.gpu_vectors import convolved, wide, wide_view
from clgraph.ops.matrix_units import AMD, INTEL, MULTIPLE, Tile, best_tile, tile_refusal, unit_of
from clgraph.selector.general import General, table
from clgraph.selector.implementation import Formats, Serves, implements, roofline
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import DeviceInfo, Query

HALVES = Serves(dtypes=frozenset({DType.F16}), kinds=frozenset({"gpu"}), formats=True, fuses=FUSABLE)


def weights_format(device: DeviceInfo, vendor: str, output: int, term: int, between: tuple[int, ...] = ()) -> Format:
    """Return the format of weights: terms innermost; for Intel blocks of outputs of a sub-group, terms in pairs.

    Args:
        output, term: The axes of outputs and channels; *between* those of taps.
    """
    blocks = ((output, unit_of(device, vendor).lanes), (term, 2)) if vendor == INTEL else ()
    return Format((output, *between, term), blocks)


class _Matrix(General[Convolution]):
    """One or two spatial axes, input and result in byxf, constant weights."""

    blocked = True
    vendor: ClassVar[str]

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        x, w, (y,), unit = q.own[0], q.own[1], q.outputs, unit_of(q.device, cls.vendor)
        last, outputs = channels_last(x.rank), w.shape[0] // q.primitive.groups
        if not 3 <= x.rank <= 4:
            return "has one or two spatial axes"
        if 1 not in q.constant:
            return "wants constant weights"
        if x.format != last or y.format != last:
            return "wants input and result in byxf"
        if odd := [v for v in q.inputs[q.arity :] if v.format.blocks]:
            return f"reads no {odd[0].format}"
        if w.shape[1] % unit.terms:
            return f"wants multiples of {unit.terms} inputs a group"
        if cls.vendor == INTEL and q.primitive.groups > 1 and outputs % unit.lanes:
            return f"wants multiples of {unit.lanes} outputs a group"
        return _starts(x) or tile_refusal(q.device, cls.vendor)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return convolved(q, [channels_last(q.outputs[0].rank)])

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        return {1: weights_format(q.device, cls.vendor, 0, 1, tuple(range(2, q.own[1].rank)))}

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return max(roofline(q, 4.0, 0.6), q.device.launch_seconds + cls._tile(q)[1])

    @classmethod
    def _tile(cls, q: Query[Convolution]) -> tuple[Tile, float]:
        (y,), w, groups = q.outputs, q.own[1], q.primitive.groups
        pixels = y.shape[0] * prod(y.shape[2:])
        device = q.device if q.device.tuning is None else replace(q.device, tuning=None)
        return best_tile(device, cls.vendor, pixels, w.shape[0] // groups, prod(w.shape[1:]), groups)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        (y,), x, w, groups = q.outputs, q.own[0], q.own[1], q.primitive.groups
        outputs, (height, width) = w.shape[0] // groups, wide(y.shape[2:], 1)
        sizes = [w.shape[1], outputs, prod(w.shape[2:]), y.shape[0], height, width]
        numbers = table(wide_view(y, y.shape), wide_view(x, x.shape), sizes, *convolution_rest(q))
        arguments, pixels = convolution_arguments(q, numbers), y.shape[0] * height * width
        return Plan((cls._tile(q)[0].launch(pixels, outputs, groups, cls.vendor, arguments),))


def _starts(x: Layout) -> str | None:
    """Say why the channels of *x* do not lie side by side from multiples of 16 bytes on, or return ``None``."""
    along, others = x.all_pitches[1], [p for axis, p in enumerate(x.all_pitches) if axis != 1]
    if along == 1 and not any(i % MULTIPLE for i in (x.origin, *others)):
        return None
    return f"wants pixels that start at multiples of {MULTIPLE} elements"


@implements(Convolution, name="convolution.intel_f16", serves=replace(HALVES, features=frozenset({INTEL})))
class ConvolutionIntelF16(_Matrix):
    """DPAS in sub-groups that read blocks, without local memory; sums in float."""

    vendor = INTEL


@implements(Convolution, name="convolution.amd_f16", serves=replace(HALVES, features=frozenset({AMD})))
class ConvolutionAmdF16(_Matrix):
    """WMMA or MFMA on tiles in local memory; sums in float."""

    vendor = AMD
