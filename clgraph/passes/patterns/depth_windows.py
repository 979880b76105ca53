"""Convolutions of volumes, a rule of ``decompose``: those of images, which are slices of the volume."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clgraph.core.layout import Shape
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pad import Pad
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose
from clgraph.passes.rewriting import Inserter, supersede

SLICES_OUTSIDE = (0, 2, 1, 3, 4)
"""``[N, C, D, H, W]`` as ``[N, D, C, H, W]``, and back."""

JOINED = 1 << 28
"""Bytes of joined slices, as many times the input as the window is deep: above, convolutions of slices are added."""


def spread_depth(program: Program, node: Node) -> bool:
    """Compute a convolution over three axes as one over the last two, or as a sum of such.

    Slice d of the result meets ``kernel`` slices of the input. Of one group their channels, one slice's behind the
    other's, are those of image d, and the weights ``[O, C, kernel, y, x]`` are ``[O, kernel * C, y, x]``. Of several
    groups, and where that takes too much memory, each slice has a convolution, and the results are added. Transposes
    between such convolutions meet, and go.
    """
    p = node.primitive
    if not isinstance(p, Convolution) or len(p.strides) != 3 or node.fused or p.apart:
        return False
    weights = node.inputs[1]
    (stride, *strides), (dilation, *dilations), (pads, *others) = p.strides, p.dilations, p.pads
    batch, outputs, depth, *made = node.output.layout.shape
    shape = weights.layout.shape
    taps = shape[2]
    if 0 in (*node.output.layout.shape, *shape):
        return False
    add = Inserter(program, node)

    def convolved(x: Value, kernel: Value, *bias: Value) -> Value:
        size = x.layout.shape
        images = add(Reshape((batch * depth, *size[2:])), x)
        image = replace(p, strides=tuple(strides), dilations=tuple(dilations), pads=tuple(others))
        return add(image, images, kernel, *bias)

    def kernel_of(first: int, count: int) -> Value:
        """Return the weights of *count* taps along the depth, those of one tap's channels behind the other's."""
        flat = (outputs, count * shape[1], *shape[3:])
        if (known := weights.constant) is not None:
            own = known[:, :, first : first + count].swapaxes(1, 2).reshape(flat)
            return program.constant(f"{node.name}/weights{first}", np.ascontiguousarray(own))
        ends = (outputs, shape[1], first + count, *shape[3:])
        part = add(Slice((0, 0, first, 0, 0), ends, (1,) * 5, follows=True), weights) if count < taps else weights
        return add(Reshape(flat), add(Transpose(SLICES_OUTSIDE), part) if count > 1 else part)

    x = add(Transpose(SLICES_OUTSIDE), node.inputs[0])
    if any(pads):
        x = add(Pad(((0, 0), pads, (0, 0), (0, 0), (0, 0)), follows=True), x)
    met = [x]
    if (taps, stride) != (1, 1):
        met = [
            add(slices_met(stride, tap * dilation, (taps - 1 - tap) * dilation, x.layout.shape), x)
            for tap in range(taps)
        ]
    if p.groups == 1 and taps * met[0].layout.nbytes <= JOINED:
        joined = add(Concat(2), *met) if taps > 1 else met[0]
        y = convolved(joined, kernel_of(0, taps), *node.inputs[2:])
    else:
        y = convolved(met[0], kernel_of(0, 1), *node.inputs[2:])
        for tap in range(1, taps):
            y = add(Eltwise("add"), convolved(met[tap], kernel_of(tap, 1)), y)
    return supersede(program, node, add(Transpose(SLICES_OUTSIDE), add(Reshape((batch, depth, outputs, *made)), y)))


def slices_met(stride: int, first: int, last: int, shape: Shape, *, follows: bool = True) -> Slice:
    """Return the slice of the second axis of *shape* that takes every *stride*, but the *first* and *last* entries.

    Args:
        follows: These are as many whatever the sizes.
    """
    ends = (shape[0], shape[1] - last, *shape[2:])
    return Slice((0, first, 0, 0, 0), ends, (1, stride, 1, 1, 1), follows=follows)
