"""Groups of a convolution made one: weights, estimates, and how many groups should be."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reshape import Reshape
from clgraph.ops.where import Where
from clgraph.passes.base import Context
from clgraph.passes.fusing.weight_scaling import constant_of
from clgraph.passes.rewriting import Inserter, substitute
from clgraph.passes.selection import proposals

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANNELS = 16
"""Channels of a block on every CPU device."""


def best_merge(context: Context, node: Node) -> tuple[float, int] | None:
    """Return the least seconds that a grouped convolution is estimated at, and how many groups are one then.

    Tried are as few groups as make whole blocks of channels, and all of them with their bands; neither where groups are
    whole blocks, or where the convolution as it is takes less than half of what the arithmetic of merged groups takes
    at the device's peak, as depthwise ones do. ``None`` where nothing serves it as it is.
    """
    if (seconds := merged_seconds(context, node, 1)) is None:
        return None
    p = node.primitive
    assert isinstance(p, Convolution)
    outputs, inputs = node.output.layout.shape[1] // p.groups, node.inputs[1].layout.shape[1]
    if not (inputs % CHANNELS or outputs % CHANNELS) or seconds < _least_seconds(context, node) / 2:
        return seconds, 1
    divisors = [m for m in range(2, p.groups + 1) if p.groups % m == 0]
    whole = next((m for m in divisors if not (m * inputs % CHANNELS or m * outputs % CHANNELS)), p.groups)
    tried = [(s, m) for m in {whole, p.groups} if (s := merged_seconds(context, node, m)) is not None]
    return min([(seconds, 1), *tried])


def merged_seconds(context: Context, node: Node, m: int, *, banded: bool = True, shuffled: int = 1) -> float | None:
    """Return the estimate for *node* with every *m* groups made one, which keeps its bands or not."""
    q, p = context.query(node), node.primitive
    assert isinstance(p, Convolution)
    w = q.inputs[1]
    shape = (w.shape[0], w.shape[1] * m, *w.shape[2:])
    inputs = (q.inputs[0], w.with_shape(shape), *q.inputs[2:])
    bands = m if banded and m == p.groups else 1
    merged = replace(p, groups=p.groups // m, apart=p.apart or m > 1, bands=bands, shuffled=shuffled)
    found = proposals(context, node, replace(q, primitive=merged, inputs=inputs))
    return found[0].seconds if found else None


def merge(program: Program, context: Context, node: Node, m: int, shuffled: int = 1) -> Node:
    """Put *node* with every *m* groups made one in its place; weights that a run computes are spread in each.

    Weights that are not there are -0, so that a NaN or an infinity in one group does not reach the groups merged with
    it (``Convolution.apart``). All groups merged leave the ``bands`` of the new one, so that zeros need not be
    multiplied.

    Args:
        shuffled: The ranges of channels whose shuffle the input has not been through (``Convolution.shuffled``).
    """
    p, weights = node.primitive, node.inputs[1].constant
    assert isinstance(p, Convolution)
    groups = p.groups
    if weights is None:
        assert shuffled == 1
        spread = _computed_spread(program, node, m)
    else:
        what = ("merge groups", groups, m, shuffled)
        known = context.packed.once(what, [weights], lambda: spread_weights(weights, groups, m, shuffled))
        spread = constant_of(program, node, "weights", known)
    own = (node.inputs[0], spread, *node.inputs[2:])
    bands = m if m == p.groups else 1
    primitive = replace(p, groups=p.groups // m, apart=True, bands=bands, shuffled=shuffled)
    return substitute(program, [node], primitive, own)


def spread_weights(weights: Array, groups: int, m: int, shuffled: int) -> Array:
    """Return the weights of every *m* of *groups* made one, -0 for one another's channels and nowhere else."""
    outputs, inputs = weights.shape[0] // groups, weights.shape[1]
    spread = np.full((weights.shape[0], inputs * m, *weights.shape[2:]), -0.0, weights.dtype)
    for group in range(groups):
        rows, first = slice(group * outputs, (group + 1) * outputs), group % m * inputs
        spread[rows, first : first + inputs] = weights[rows] + weights.dtype.type(0)
    return spread[:, unshuffled(spread.shape[1], shuffled)] if shuffled > 1 else spread


def _computed_spread(program: Program, node: Node, m: int) -> Value:
    """Return what :func:`spread_weights` does, as nodes: the weights where a row's group is, -0 elsewhere."""
    p, weights = node.primitive, node.inputs[1]
    assert isinstance(p, Convolution)
    (rows, inputs, *kernel), dtype = weights.layout.shape, weights.layout.dtype.numpy
    add = Inserter(program, node)
    own = np.arange(rows)[:, None] // (rows // p.groups) % m == np.arange(m)
    here = constant_of(program, node, "own", own[..., None])
    flat = add(Reshape((rows, 1, inputs * prod(kernel))), weights)
    # A weight of -0 is one that is there.
    there = add(Eltwise("add"), flat, constant_of(program, node, "zero", np.zeros(1, dtype)))
    spread = add(Where(), here, there, constant_of(program, node, "none", np.full(1, -0.0, dtype)))
    return add(Reshape((rows, m * inputs, *kernel)), spread)


def has_plain_floats(node: Node) -> bool:
    """Whether a convolution's weights are plain and of floating type, constant or not."""
    layout = node.inputs[1].layout
    return layout.is_dense_plain and layout.dtype.floating


def shuffled_order(channels: int, ranges: int) -> NDArray[np.int64]:
    """Return the channels in the order that a shuffle of so many ranges of them makes."""
    return np.arange(channels).reshape(ranges, -1).T.ravel()


def unshuffled(channels: int, ranges: int) -> NDArray[np.int64]:
    """Return the place that it gives each channel."""
    return np.argsort(shuffled_order(channels, ranges))


def _least_seconds(context: Context, node: Node) -> float:
    """Return what the arithmetic of *node* with merged groups takes at the device's peak.

    A block of output channels reads the inputs of every group that it meets, for all of its channels.
    """
    q, p = context.query(node), node.primitive
    assert isinstance(p, Convolution)
    device, outputs = q.device.whole, q.outputs[0].shape[1] // p.groups
    peak = max(device.flops, device.costs.worker_flops * device.workers)
    return p.flops(q.own, q.outputs) * max(1, CHANNELS // outputs) / peak
