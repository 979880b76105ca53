"""Windows over a single pixel, a rule of ``decompose``: all of a window but one element meets zeros there."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.convolution import Convolution
from clgraph.passes.rewriting import substitute


def crop_windows(program: Program, node: Node) -> bool:
    """Cut from constant weights what only pads are multiplied by, where input and result are single pixels.

    The last layers of networks that small pictures are given to are such: of 3x3 weights, one of nine is read. Weights
    that are not finite are multiplied by the zeros of pads, and stay.
    """
    p = node.primitive
    weights = node.inputs[1].constant if isinstance(p, Convolution) else None
    if not isinstance(p, Convolution) or weights is None or node.fused or prod(weights.shape[2:]) == 1:
        return False
    places = [divmod(before, dilation) for (before, _), dilation in zip(p.pads, p.dilations, strict=True)]
    pixels = prod(node.inputs[0].layout.shape[2:]), prod(node.output.layout.shape[2:])
    met = all(not rest and tap < taps for (tap, rest), taps in zip(places, weights.shape[2:], strict=True))
    if pixels != (1, 1) or not met or not np.isfinite(weights).all():
        return False
    element = tuple(slice(tap, tap + 1) for tap, _ in places)
    constant = program.constant(f"{node.name}/weights", np.ascontiguousarray(weights[:, :, *element]))
    point = replace(p, pads=((0, 0),) * len(places))
    substitute(program, (node,), point, [node.inputs[0], constant, *node.inputs[2:]])
    return True
