"""Convolutions as implicit matrix products by groups of work-items with tiles in local memory."""

from __future__ import annotations

from itertools import product
from math import prod

from clgraph.core.format import channels_last
from clgraph.implementations.portable.matmul import SIDE, TILE, efficiency, refusal
from clgraph.ops.convolution import Convolution, bias_numbers
from clgraph.selector.general import (
    FLOATS,
    General,
    float_jit,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Formats, Serves, implements, roofline
from clgraph.selector.plan import Launch, Plan, Table
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View

FEWEST = 8
"""Outputs of a group below which most of a tile would be empty."""


@implements(Convolution, name="convolution.gpu_tiled", serves=Serves(dtypes=FLOATS, fuses=FUSABLE, formats=True))
class ConvolutionGpuTiled(General[Convolution]):
    """Groups of 16 x 16 work-items make 64 outputs of 64 pixels, 16 sums each; any number of spatial axes."""

    @classmethod
    def formats(cls, q: Query[Convolution]) -> tuple[Formats, ...]:
        """Propose plain tensors and, on a GPU, byxf for the input, the result or both."""
        (plain,), (y,) = super().formats(q), q.outputs
        if q.device.kind != "gpu" or y.rank > 5:
            return (plain,)
        last, rest = channels_last(y.rank), plain.inputs[1:]
        ours = plain.outputs[0]
        return (plain, *(Formats((a, *rest), (b,)) for a, b in ((ours, last), (last, ours), (last, last))))

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        outputs = q.own[1].shape[0] // q.primitive.groups
        if outputs < FEWEST:
            return f"requires at least {FEWEST} outputs a group, not {outputs}"
        return refusal(q.device)

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        (y,), groups = q.outputs, q.primitive.groups
        share = efficiency(q.device, y.shape[1] // groups, prod(y.shape[2:]), y.shape[0] * groups)
        return roofline(q, max(share, 1e-6))

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        x, w, (y,), f = q.own[0], q.own[1], q.outputs, q.primitive
        kernel, outputs, pixels = w.shape[2:], w.shape[0] // f.groups, prod(y.shape[2:])
        bias = bias_numbers(q.own[2] if q.arity > 2 else None)
        numbers = [w.shape[1], outputs, prod(kernel), *bias, f.groups, pixels]
        before = [b for b, _ in f.pads]
        axes = zip(x.shape[2:], kernel, f.strides, f.dilations, before, strict=True)
        views = (View.of(y), View.of(x), View.of(w))
        taps: list[int] = []
        for tap in product(*map(range, kernel)):
            places = [k * d for k, d in zip(tap, f.dilations, strict=True)]
            offset_x = sum(i * p for i, p in zip(places, x.all_pitches[2:], strict=True))
            offset_w = sum(k * p for k, p in zip(tap, w.all_pitches[2:], strict=True))
            taps += [offset_x, offset_w, *places]
        posts = post_arguments(q, post_views(q), y.rank)
        arguments = (
            *("in0", "in1", q.role(2), "out0"),
            table(y.shape, *views, numbers, *axes),
            Table(tuple(taps)),
            *posts,
        )
        grid = (-(-pixels // TILE) * SIDE, -(-outputs // TILE) * SIDE, y.shape[0] * f.groups)
        jit = float_jit(y.dtype, y.rank)
        entry = "convolution_gpu_tiled"
        return Plan((Launch(f"convolution/{entry}.cl", entry, jit, grid, (SIDE, SIDE, 1), arguments),))
