"""Transposed convolutions of volumes, a rule of ``decompose``: those of images, which are slices of the volume."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pad import Pad
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.depth_windows import JOINED, SLICES_OUTSIDE, slices_met
from clgraph.passes.patterns.upsampling_phases import axis_phases, may_meet_zeros
from clgraph.passes.rewriting import Inserter, supersede


def spread_upsampling(program: Program, node: Node) -> bool:
    """Compute a transposed convolution over three axes with constant weights as one over the last two, or as a sum.

    Slice ``r + stride * u`` of the result is phase r's sum (``upsampling_phases``) of what its taps make of the slices
    ``u + shift``. So image u of the result has ``stride * O`` channels, those of its slices one behind the other, and
    meets as many slices of the input as there are shifts; a tap that a phase does not have is zero. The slices'
    channels are joined where memory allows it; else each shift has a transposed convolution, and the results are added.
    """
    p = node.primitive
    if not isinstance(p, ConvTranspose) or p.groups > 1 or len(p.strides) != 3 or node.fused:
        return False
    x, constants = node.inputs[0], [v.constant for v in node.inputs[1:] if v.constant is not None]
    if len(constants) < len(node.inputs) - 1 or 0 in (*x.layout.shape, *constants[0].shape):
        return False
    weights, *bias = constants
    if not may_meet_zeros(weights):
        return False
    (stride, *strides), (dilation, *dilations), ((before, _), *pads) = p.strides, p.dilations, p.pads
    batch, channels, slices, *size = x.layout.shape
    _, outputs, depth, *made = node.output.layout.shape
    phases = axis_phases(weights.shape[2], stride, dilation, before)
    shifts = sorted({shift for phase in phases for shift in phase.shifts})
    images, extra = -(-depth // stride), p.output_padding[1:]
    image = replace(p, strides=(*strides,), dilations=(*dilations,), pads=(*pads,), output_padding=extra)
    add = Inserter(program, node)

    def enlarged(images_of: Value, number: int, kernel: Array, *more: Array) -> Value:
        given = [program.constant(f"{node.name}/weights{number}", np.ascontiguousarray(kernel))]
        given += [program.constant(f"{node.name}/bias", np.tile(b, stride)) for b in more]
        flat = add(Reshape((batch * images, images_of.layout.shape[2], *size)), images_of)
        return add(image, flat, *given)

    def kernel_of(shift: int) -> Array:
        kernel = np.zeros((channels, stride, outputs, *weights.shape[3:]), weights.dtype)
        for r, phase in enumerate(phases):
            for k in (k for k, met in zip(phase.taps, phase.shifts, strict=True) if met == shift):
                kernel[:, r] = weights[:, :, k]
        return kernel.reshape(channels, stride * outputs, *weights.shape[3:])

    x = add(Transpose(SLICES_OUTSIDE), x)
    around = max(0, -shifts[0]), max(0, images + shifts[-1] - slices)
    if any(around):
        x = add(Pad(((0, 0), around, (0, 0), (0, 0), (0, 0)), follows=True), x)
    shape = x.layout.shape
    met = []
    for start in (shift + around[0] for shift in shifts):
        part = slices_met(1, start, shape[1] - start - images, shape)
        met.append(x if images == shape[1] else add(part, x))
    kernels = [kernel_of(shift) for shift in shifts]
    if len(met) * met[0].layout.nbytes <= JOINED:
        y = enlarged(add(Concat(2), *met) if len(met) > 1 else met[0], 0, np.concatenate(kernels), *bias)
    else:
        y = enlarged(met[0], 0, kernels[0], *bias)
        for number in range(1, len(met)):
            y = add(Eltwise("add"), enlarged(met[number], number, kernels[number]), y)
    y = add(Reshape((batch, images * stride, outputs, *made)), y)
    if depth != images * stride:
        y = add(slices_met(1, 0, images * stride - depth, y.layout.shape), y)
    return supersede(program, node, add(Transpose(SLICES_OUTSIDE), y))
