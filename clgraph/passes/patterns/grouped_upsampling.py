"""Transposed convolutions with groups, a rule of ``decompose``: by phases of the strides, or by groups."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import gcd, prod

import numpy as np

from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.gather import Gather
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.upsampling_phases import UpsamplingPhase, axis_phases, may_meet_zeros
from clgraph.passes.rewriting import Inserter, supersede

_PHASES, _GROUPS = 64, 64
"""The most phases, and the most groups, that have a convolution each."""
_COMPUTED = 8
"""The most groups with weights of a run that have a transposed one each: more are taken apart by phases sooner."""


def spread_groups(program: Program, node: Node) -> bool:
    """Make a transposed convolution with groups a convolution for each phase of its strides.

    Result element ``r + stride * u`` is element u of a convolution of the input with the taps that meet phase r; the
    phases are interleaved by a transpose. Tiles have groups of convolutions alone. Of many phases, as where a map of
    classes is enlarged eight times, each group becomes a transposed convolution; so does each of few groups whose
    weights a run computes, as where styles modulate those of every entry of the batch, and each where weights are not
    finite.
    """
    p = node.primitive
    if not isinstance(p, ConvTranspose) or p.groups == 1 or node.fused:
        return False
    x, weights, *bias = node.inputs
    if 0 in (*x.layout.shape, *weights.layout.shape):
        return False
    most = _COMPUTED if weights.constant is None else 0
    padded = weights.constant is None or may_meet_zeros(weights.constant)
    if p.groups <= most or prod(p.strides) > _PHASES or not padded:
        return p.groups <= _GROUPS and _by_groups(program, node)
    batch, channels, *spatial = x.layout.shape
    _, outputs, *made = node.output.layout.shape
    rank = len(spatial)
    counts = tuple(-(-size // stride) for size, stride in zip(made, p.strides, strict=True))
    axes = zip(weights.layout.shape[2:], p.strides, p.dilations, (before for before, _ in p.pads), strict=True)
    phases = list(product(*(axis_phases(*axis) for axis in axes)))
    pads = [[_pads(*axis) for axis in zip(phase, counts, spatial, strict=True)] for phase in phases]
    if any(pad is None or min(pad) < 0 for each in pads for pad in each):
        return False
    add = Inserter(program, node)
    # [C, O / groups, ...] as [O, C / groups, ...].
    apart = (p.groups, channels // p.groups, *weights.layout.shape[1:])
    turned = (outputs, channels // p.groups, *weights.layout.shape[2:])
    known = None if weights.constant is None else weights.constant.reshape(apart).swapaxes(1, 2).reshape(turned)
    if known is None:
        flat = add(Reshape(turned), add(Transpose((0, 2, 1, *range(3, 3 + rank))), add(Reshape(apart), weights)))

    def kernel_of(phase: tuple[UpsamplingPhase, ...], number: int) -> Value:
        if known is not None:
            met = known
            for axis, along in enumerate(phase, 2):
                met = met.take(along.taps, axis)
            return program.constant(f"{node.name}/weights{number}", met)
        kernel = flat
        for axis, along in enumerate(phase, 2):
            taps = program.constant(f"{node.name}/taps{number}_{axis}", np.array(along.taps, np.int64))
            kernel = add(Gather(axis), kernel, taps)
        return kernel

    dilations = tuple(d // gcd(d, s) for d, s in zip(p.dilations, p.strides, strict=True))
    parts = []
    for number, (phase, around) in enumerate(zip(phases, pads, strict=True)):
        step = Convolution((1,) * rank, dilations, tuple(pad for pad in around if pad is not None), p.groups)
        parts.append(add(step, x, kernel_of(phase, number), *bias))
    y = add(Concat(1), *parts) if len(parts) > 1 else parts[0]
    y = add(Reshape((batch, *p.strides, outputs, *counts)), y)
    y = add(Transpose((0, 1 + rank, *(a for i in range(rank) for a in (2 + rank + i, 1 + i)))), y)
    whole = tuple(count * stride for count, stride in zip(counts, p.strides, strict=True))
    y = add(Reshape((batch, outputs, *whole)), y)
    if whole != (*made,):
        y = add(Slice((0,) * (2 + rank), (batch, outputs, *made), (1,) * (2 + rank), follows=True), y)
    return supersede(program, node, y)


def _by_groups(program: Program, node: Node) -> bool:
    p = node.primitive
    assert isinstance(p, ConvTranspose)
    parts = []
    for number in range(p.groups):
        x, *rest = node.inputs
        inputs = [_part(program, node, x, 1, number), *(_part(program, node, v, 0, number) for v in rest)]
        parts.append(program.insert(replace(p, groups=1), inputs, sources=[node], before=node).output)
    return supersede(program, node, program.insert(Concat(1), parts, sources=[node], before=node).output)


def _part(program: Program, node: Node, value: Value, axis: int, number: int) -> Value:
    """Return what group *number* of *node* reads of *value*, whose *axis* is cut into groups."""
    p, shape = node.primitive, value.layout.shape
    assert isinstance(p, ConvTranspose)
    if value.constant is not None:
        own = np.split(value.constant, p.groups, axis)[number]
        return program.constant(f"{node.name}/{value.name}{number}", np.ascontiguousarray(own))
    size = shape[axis] // p.groups
    starts, ends = [0] * len(shape), list(shape)
    starts[axis], ends[axis] = number * size, (number + 1) * size
    step = Slice(tuple(starts), tuple(ends), (1,) * len(shape), follows=True)
    return program.insert(step, [value], sources=[node], before=node).output


def _pads(phase: UpsamplingPhase, count: int, size: int) -> tuple[int, int] | None:
    """Return the zeros (before, after) *size* elements for *count* results of *phase*; ``None`` where no tap is."""
    if not phase.shifts:
        return None
    return -phase.shifts[0], count - 1 + phase.shifts[-1] - (size - 1)
