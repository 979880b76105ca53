"""Transposed convolutions with groups, a rule of ``decompose``: by phases of the strides, or by groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import gcd, prod

import numpy as np

from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.upsampling_phases import Phase, axis_phases
from clgraph.passes.rewriting import supersede

_PHASES, _GROUPS = 64, 64
"""The most phases, and the most groups, that have a convolution each."""


def spread_groups(program: Program, node: Node) -> bool:
    """Make a transposed convolution with groups and constant weights a convolution for each phase of its strides.

    Result element ``r + stride * u`` is element u of a convolution of the input with the taps that meet phase r; the
    phases are interleaved by a transpose. Tiles have groups of convolutions alone. Of many phases, as where a map of
    classes is enlarged eight times, each group becomes a transposed convolution.
    """
    p = node.primitive
    if not isinstance(p, ConvTranspose) or p.groups == 1 or node.fused:
        return False
    x, constants = node.inputs[0], [v.constant for v in node.inputs[1:] if v.constant is not None]
    if len(constants) < len(node.inputs) - 1 or 0 in (*x.layout.shape, *constants[0].shape):
        return False
    if prod(p.strides) > _PHASES:
        return p.groups <= _GROUPS and _by_groups(program, node, constants)
    weights, *bias = constants
    batch, channels, *spatial = x.layout.shape
    _, outputs, *made = node.output.layout.shape
    rank = len(spatial)
    counts = tuple(-(-size // stride) for size, stride in zip(made, p.strides, strict=True))
    axes = zip(weights.shape[2:], p.strides, p.dilations, (before for before, _ in p.pads), strict=True)
    phases = list(product(*(axis_phases(*axis) for axis in axes)))
    pads = [[_pads(*axis) for axis in zip(phase, counts, spatial, strict=True)] for phase in phases]
    if any(pad is None or min(pad) < 0 for each in pads for pad in each):
        return False

    def add(step: Primitive, *inputs: Value) -> Value:
        return program.insert(step, inputs, sources=[node], before=node).output

    # [C, O / groups, ...] as [O, C / groups, ...].
    inner = weights.reshape(p.groups, channels // p.groups, *weights.shape[1:]).swapaxes(1, 2)
    flat = inner.reshape(outputs, channels // p.groups, *weights.shape[2:])
    dilations = tuple(d // gcd(d, s) for d, s in zip(p.dilations, p.strides, strict=True))
    more = [program.constant(f"{node.name}/bias", b) for b in bias]
    parts = []
    for number, (phase, around) in enumerate(zip(phases, pads, strict=True)):
        kernel = flat
        for axis, along in enumerate(phase, 2):
            kernel = kernel.take(along.taps, axis)
        constant = program.constant(f"{node.name}/weights{number}", np.ascontiguousarray(kernel))
        step = Convolution((1,) * rank, dilations, tuple(pad for pad in around if pad is not None), p.groups)
        parts.append(add(step, x, constant, *more))
    y = add(Concat(1), *parts) if len(parts) > 1 else parts[0]
    y = add(Reshape((batch, *p.strides, outputs, *counts)), y)
    y = add(Transpose((0, 1 + rank, *(a for i in range(rank) for a in (2 + rank + i, 1 + i)))), y)
    whole = tuple(count * stride for count, stride in zip(counts, p.strides, strict=True))
    y = add(Reshape((batch, outputs, *whole)), y)
    if whole != (*made,):
        y = add(Slice((0,) * (2 + rank), (batch, outputs, *made), (1,) * (2 + rank), follows=True), y)
    return supersede(program, node, y)


def _by_groups(program: Program, node: Node, constants: Sequence[Array]) -> bool:
    p, shape = node.primitive, node.inputs[0].layout.shape
    assert isinstance(p, ConvTranspose)
    size, parts = shape[1] // p.groups, []
    for number in range(p.groups):
        starts, ends = (0, number * size), (shape[0], (number + 1) * size)
        part = Slice((*starts, *(0 for _ in shape[2:])), (*ends, *shape[2:]), (1,) * len(shape))
        x = program.insert(part, node.inputs[:1], sources=[node], before=node).output
        inputs = [x]
        for what, constant in zip(("weights", "bias"), constants, strict=False):
            own = np.ascontiguousarray(np.split(constant, p.groups)[number])
            inputs.append(program.constant(f"{node.name}/{what}{number}", own))
        parts.append(program.insert(replace(p, groups=1), inputs, sources=[node], before=node).output)
    return supersede(program, node, program.insert(Concat(1), parts, sources=[node], before=node).output)


def _pads(phase: Phase, count: int, size: int) -> tuple[int, int] | None:
    """Return the zeros (before, after) *size* elements for *count* results of *phase*; ``None`` where no tap is."""
    if not phase.shifts:
        return None
    return -phase.shifts[0], count - 1 + phase.shifts[-1] - (size - 1)
