"""Interpolation of volumes, a rule of ``decompose``: along the first axis, then that of the slices."""

from __future__ import annotations

from dataclasses import replace

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.depth_windows import SLICES_OUTSIDE
from clgraph.passes.rewriting import Inserter, supersede


def spread_resizing(program: Program, node: Node) -> bool:
    """Interpolate over three axes along the first of them, then over the other two: taps are products of an axis' each.

    What is along the first axis alone stays, and nearest elements that are repeated as many times each: one copy.
    """
    p = node.primitive
    if not isinstance(p, Resize) or p.shape is None or len(p.shape) != 5 or p.roi or node.fused:
        return False
    x, shape = node.inputs[0], node.inputs[0].layout.shape
    if not x.layout.dtype.floating or 0 in (*shape, *p.shape) or not all(p.keeps(axis, shape[axis]) for axis in (0, 1)):
        return False
    if all(p.keeps(axis, shape[axis]) for axis in (3, 4)):
        return False
    if p.mode == "nearest" and all(p.shape[a] % n == 0 and p.repeats(a, n) for a, n in enumerate(shape)):
        return False
    batch, channels, slices, *size = shape
    *_, depth, height, width = p.shape
    p = replace(p, follows=p.scaled(shape) == p.shape)
    add = Inserter(program, node)
    if not p.keeps(2, slices):
        x = add(replace(p, shape=(batch, channels, depth, *size), scales=(1.0, 1.0, p.scales[2], 1.0, 1.0)), x)
    x = add(Reshape((batch * depth, channels, *size)), add(Transpose(SLICES_OUTSIDE), x))
    x = add(replace(p, shape=(batch * depth, channels, height, width), scales=(1.0, 1.0, *p.scales[3:])), x)
    x = add(Reshape((batch, depth, channels, height, width)), x)
    return supersede(program, node, add(Transpose(SLICES_OUTSIDE), x))
