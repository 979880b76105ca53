"""Transposed convolutions with few outputs whose windows overlap, a rule of ``decompose``: one convolution."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from clgraph.graph.node import Node
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.pixel_shuffle import fewer_blocks
from clgraph.passes.patterns.upsampling_phases import axis_phases, may_meet_zeros
from clgraph.passes.rewriting import supersede


def spread_overlaps(program: Program, node: Node) -> bool:
    """Compute the phases of a transposed convolution with few outputs as channels, which a transpose interleaves.

    The convolution's window holds all elements that any phase meets, and zeros where another phase alone meets them: an
    inverse short-time Fourier transform, of one output with windows of four times the stride, has 1/16 of the products.
    """
    p, constants = node.primitive, [v.constant for v in node.inputs[1:] if v.constant is not None]
    if not isinstance(p, ConvTranspose) or p.groups > 1 or len(p.strides) > 2 or node.fused:
        return False
    x = node.inputs[0]
    if len(constants) < len(node.inputs) - 1 or 0 in (*x.layout.shape, *constants[0].shape) or node.inputs[1].integers:
        return False
    weights, *bias = constants
    batch, channels, *spatial = x.layout.shape
    _, outputs, *made = node.output.layout.shape
    rank, kernel = len(spatial), weights.shape[2:]
    overlapping = [k - s for k, s in zip(kernel, p.strides, strict=True)]
    axes = zip(kernel, p.strides, p.dilations, (before for before, _ in p.pads), strict=True)
    phases = [axis_phases(*axis) for axis in axes]
    reach = [sorted({shift for phase in along for shift in phase.shifts}) for along in phases]
    window = tuple(shifts[-1] - shifts[0] + 1 for shifts in reach)
    if min(overlapping) < 0 or not any(overlapping):
        return False
    if not fewer_blocks(outputs, prod(p.strides), prod(window), prod(kernel)):
        return False
    counts = tuple(-(-size // stride) for size, stride in zip(made, p.strides, strict=True))
    extents = zip(reach, counts, spatial, strict=True)
    pads = tuple((-shifts[0], count - 1 + shifts[-1] - (size - 1)) for shifts, count, size in extents)
    if min(map(min, pads)) < 0 or not may_meet_zeros(weights):
        return False

    wide = np.zeros((outputs, prod(p.strides), channels, *window), weights.dtype)
    for i, numbers in enumerate(product(*map(range, p.strides))):
        met = [along[r] for along, r in zip(phases, numbers, strict=True)]
        places = [[shift - shifts[0] for shift in phase.shifts] for phase, shifts in zip(met, reach, strict=True)]
        part = weights[np.ix_(range(channels), range(outputs), *(phase.taps for phase in met))].swapaxes(0, 1)
        wide[:, i][np.ix_(range(outputs), range(channels), *places)] = part
    flat = np.ascontiguousarray(wide.reshape(-1, channels, *window))
    inputs = [x, program.constant(f"{node.name}/weights", flat)]
    inputs += [program.constant(f"{node.name}/bias", np.repeat(b, prod(p.strides))) for b in bias]
    whole = tuple(count * stride for count, stride in zip(counts, p.strides, strict=True))
    steps: list[Primitive] = [
        Convolution((1,) * rank, (1,) * rank, pads),
        Reshape((batch, outputs, *p.strides, *counts)),
        Transpose((0, 1, *(a for i in range(rank) for a in (2 + rank + i, 2 + i)))),
        Reshape((batch, outputs, *whole)),
    ]
    if whole != (*made,):
        steps.append(Slice((0,) * (2 + rank), (batch, outputs, *made), (1,) * (2 + rank)))
    for step in steps:
        inputs = [program.insert(step, inputs, sources=[node], before=node).output]
    return supersede(program, node, inputs[0])
