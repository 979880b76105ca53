"""Convolutions of halves on the matrix units of GPUs, on byxf: an implicit matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.vectors import convolved
from clgraph.implementations.gpu.windows import bias_of, convolution_arguments, implicit_sizes, window_numbers
from clgraph.implementations.matrix_units.units import MULTIPLE, MatrixUnits, UnitTile
from clgraph.ops.convolution import Convolution
from clgraph.selector.general import General, table
from clgraph.selector.implementation import Formats, Serves, roofline
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

HALVES = Serves(dtypes=frozenset({DType.F16}), kinds=frozenset({"gpu"}), formats=True, fuses=FUSABLE)


class ConvolutionOnUnits(General[Convolution]):
    """One or two spatial axes, input and result in byxf, constant weights."""

    blocked = True
    units: ClassVar[MatrixUnits]

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        x, w, (y,), unit = q.own[0], q.own[1], q.outputs, cls.units.unit_of(q.device)
        last, outputs = channels_last(x.rank), w.shape[0] // q.primitive.groups
        if not 3 <= x.rank <= 4:
            return "has one or two spatial axes"
        if 1 not in q.constant:
            return "requires constant weights"
        if x.format != last or y.format != last:
            return "requires input and result in byxf"
        if odd := [v for v in q.inputs[q.arity :] if v.format.blocks]:
            return f"reads no {odd[0].format}"
        if w.shape[1] % unit.terms:
            return f"requires multiples of {unit.terms} inputs a group"
        if cls.units.blocks_weights and q.primitive.groups > 1 and outputs % unit.lanes:
            return f"requires multiples of {unit.lanes} outputs a group"
        return _starts(x) or cls.units.tile_refusal(q.device)

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        return convolved(q, [channels_last(q.outputs[0].rank)])

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        return {1: cls.units.weights_format(q.device, 0, 1, tuple(range(2, q.own[1].rank)))}

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        return max(roofline(q, 4.0, 0.6), q.device.launch_seconds + cls._tile(q)[1])

    @classmethod
    def _tile(cls, q: Query[Convolution]) -> tuple[UnitTile, float]:
        return cls.units.best_tile(q.device, implicit_sizes(q))

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        arguments = convolution_arguments(q, table(*window_numbers(q), bias_of(q)))
        return Plan((cls.units.launch(cls._tile(q)[0], implicit_sizes(q), arguments),))


def _starts(x: Layout) -> str | None:
    """Say why the channels of *x* do not lie side by side from multiples of 16 bytes on, or return ``None``."""
    along, others = x.all_pitches[1], [p for axis, p in enumerate(x.all_pitches) if axis != 1]
    if along == 1 and not any(i % MULTIPLE for i in (x.origin, *others)):
        return None
    return f"requires pixels that start at multiples of {MULTIPLE} elements"
