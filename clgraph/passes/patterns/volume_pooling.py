"""Pooling of volumes, a rule of ``decompose``: that of their slices, and of what it leaves along the first axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.depth_windows import SLICES_OUTSIDE, slices_met
from clgraph.passes.rewriting import Inserter, supersede

_DEEPEST = 16
"""Slices of the deepest window whose slices are taken one by one."""


def spread_pooling(program: Program, node: Node) -> bool:
    """Pool over three axes over the last two first, a slice at a time, then over the slices of each window.

    Maxima are the same. What an average divides by is a product of one number an axis, since the elements that count
    are a box, so the average of averages is the same but for rounding twice.
    """
    p = node.primitive
    if not isinstance(p, Pooling) or len(p.strides) != 3 or p.kernel[0] > _DEEPEST or node.fused:
        return False
    x = node.inputs[0]
    if not x.layout.dtype.floating or 0 in (*x.layout.shape, *node.output.layout.shape):
        return False
    if not any(isinstance(n.primitive, Convolution | ConvTranspose) for n in program):
        # Nothing computes slices, which are worth it where their channels are blocks already.
        return False
    batch, channels, slices, *size = x.layout.shape
    _, _, depth, *made = node.output.layout.shape
    along, images = _axes(p, 0, 1), _axes(p, 1, 3)
    add = Inserter(program, node)
    x = add(Transpose(SLICES_OUTSIDE), x)
    x = add(images, add(Reshape((batch * slices, channels, *size)), x))
    x = add(Reshape((batch, slices, channels, *made)), x)
    (stride,), (dilation,), ((before, after),), (taps,) = along.strides, along.dilations, along.pads, along.kernel
    after = max(after, (depth - 1) * stride + (taps - 1) * dilation + 1 - before - slices)
    # Where a last window reaches beyond the pads, and how many elements it has inside, is told by the size.
    counted = p.function == "max" or p.count_include_pad or not (before or after)
    follows = counted and not p.ceil_mode
    if before or after:
        lowest = -np.inf if p.function == "max" else 0.0
        x = add(Pad(((0, 0), (before, after), (0, 0), (0, 0), (0, 0)), value=lowest, follows=follows), x)
    shape, reach = x.layout.shape, (taps - 1) * dilation
    y, *rest = (
        add(slices_met(stride, at, reach - at, shape, follows=follows), x) for at in range(0, reach + 1, dilation)
    )
    for part in rest:
        y = add(Eltwise("max" if p.function == "max" else "add"), y, part)
    if p.function == "average":
        counts = along.counts((slices,)).astype(x.layout.dtype.numpy).reshape(1, -1, 1, 1, 1)
        counts = counts[:, :1] if (counts == counts[:, :1]).all() else counts
        y = add(Eltwise("div"), y, program.constant(f"{node.name}/slices", counts))
    return supersede(program, node, add(Transpose(SLICES_OUTSIDE), y))


def _axes(p: Pooling, first: int, last: int) -> Pooling:
    """Return the pooling over the spatial axes from *first* up to *last* alone."""
    part = slice(first, last)
    return replace(p, kernel=p.kernel[part], strides=p.strides[part], dilations=p.dilations[part], pads=p.pads[part])
