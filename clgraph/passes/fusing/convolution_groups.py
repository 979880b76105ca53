"""Grouped convolutions as whole blocks of channels, and channel shuffles as an order of channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from clgraph.graph.node import Node
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.fusing.weight_scaling import constant_of, has_plain_weights
from clgraph.passes.rewriting import apart, bypass, read_outside, substitute
from clgraph.passes.selection import proposals

CHANNELS = 16
"""Channels of a block on every CPU device."""


def merge_groups(program: Program, context: Context, node: Node, table: list[str]) -> Node:
    """Let groups that are no whole blocks of channels share blocks, with no weights for one another's channels.

    Neighbouring groups become one: as few as make whole blocks, else all of them. All groups merged leave the ``bands``
    of the new group, so that zeros need not be multiplied. A channel shuffle behind the convolution, with nothing but
    activations between, becomes the order in which the next grouped convolution reads its channels, if only activations
    and depthwise convolutions are in between; else an order of output channels, which needs one group without bands.
    Done where it is estimated faster than the convolution, and the shuffle, as they are; not estimated where that takes
    less than half of what merged groups take at the device's peak, as with depthwise ones. Weights that are not there
    are -0, so that a NaN or an infinity in one group does not reach the groups merged with it (``Convolution.apart``).

    Returns:
        The convolution that is there now.
    """
    p = node.primitive
    if not isinstance(p, Convolution) or node.fused or not has_plain_weights(node):
        return node
    shuffle = _shuffle_behind(program, node)
    if shuffle and p.groups > 1 and _read_shuffled(program, context, node, shuffle, table):
        shuffle = []
    if p.groups == 1:
        return _shuffled(program, context, node, shuffle, table) if shuffle else node
    outputs, inputs = node.output.layout.shape[1] // p.groups, node.inputs[1].layout.shape[1]
    if not (inputs % CHANNELS or outputs % CHANNELS) and not shuffle:
        return node
    divisors = [m for m in range(2, p.groups + 1) if p.groups % m == 0]
    whole = next((m for m in divisors if not (m * inputs % CHANNELS or m * outputs % CHANNELS)), p.groups)
    apart_seconds = _seconds(context, node, 1)
    if apart_seconds is None:
        return node
    moved = sum(found[0].seconds for n in shuffle[1:] if (found := proposals(context, n)))
    best: tuple[float, int] = (apart_seconds + moved, 1)
    if best[0] < _least_seconds(context, node) / 2:
        return node
    for m in {whole, p.groups}:
        ordered = bool(shuffle) and m == p.groups
        seconds = _seconds(context, node, m, banded=not ordered)
        if seconds is not None:
            best = min(best, (seconds + (0.0 if ordered else moved), m))
    if best[1] == 1:
        return node
    merged = _merged(program, context, node, best[1])
    table.append(f"{node.name}: {p.groups} groups become {p.groups // best[1]}, of whole blocks")
    return _shuffled(program, context, merged, shuffle, table) if shuffle and best[1] == p.groups else merged


def _least_seconds(context: Context, node: Node) -> float:
    """Return what the arithmetic of *node* with merged groups takes at the device's peak.

    A block of output channels reads the inputs of every group that it meets, for all of its channels.
    """
    q, p = context.query(node), node.primitive
    assert isinstance(p, Convolution)
    device, outputs = q.device.whole, q.outputs[0].shape[1] // p.groups
    peak = max(device.flops, device.costs.worker_flops * device.workers)
    return p.flops(q.own, q.outputs) * max(1, CHANNELS // outputs) / peak


def _seconds(context: Context, node: Node, m: int, *, banded: bool = True, shuffled: int = 1) -> float | None:
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


def _merged(program: Program, context: Context, node: Node, m: int, shuffled: int = 1) -> Node:
    p, weights = node.primitive, node.inputs[1].constant
    assert isinstance(p, Convolution)
    assert weights is not None
    groups = p.groups
    what = ("merge groups", groups, m, shuffled)
    spread = context.packed.once(what, [weights], lambda: spread_weights(weights, groups, m, shuffled))
    own = (node.inputs[0], constant_of(program, node, "weights", spread), *node.inputs[2:])
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
    return spread[:, _places(spread.shape[1], shuffled)] if shuffled > 1 else spread


def _order(channels: int, ranges: int) -> NDArray[np.int64]:
    """Return the channels in the order that a shuffle of so many ranges of them makes."""
    return np.arange(channels).reshape(ranges, -1).T.ravel()


def _places(channels: int, ranges: int) -> NDArray[np.int64]:
    """Return the place that it gives each channel."""
    return np.argsort(_order(channels, ranges))


def _read_shuffled(program: Program, context: Context, node: Node, shuffle: list[Node], table: list[str]) -> bool:
    """Let the next grouped convolution read its channels as they were before *shuffle*, and remove that.

    Done where the two convolutions are estimated faster than with *node* computing its channels in the new order.
    """
    between = _until_groups(program, shuffle)
    if not between or apart([*shuffle[1:], *between]) is not None:
        return False
    *chain, reader = between
    p, q = node.primitive, reader.primitive
    assert isinstance(p, Convolution)
    assert isinstance(q, Convolution)
    channels, ranges = shuffle[0].output.layout.shape[1], shuffle[1].output.layout.shape[1]
    merged, ordered = _seconds(context, node, p.groups), _seconds(context, node, p.groups, banded=False)
    gathered, banded = _seconds(context, reader, q.groups, shuffled=ranges), _seconds(context, reader, q.groups)
    if merged is None or ordered is None or gathered is None or banded is None or merged + gathered >= ordered + banded:
        return False
    for n in shuffle[1:]:
        bypass(program, n)
    for n in chain:
        if isinstance(n.primitive, Convolution):
            _reorder_outputs(program, context, n, _places(channels, ranges))
    _merged(program, context, reader, q.groups, ranges)
    table.append(f"{', '.join(n.name for n in shuffle[1:])}: into the order in which {reader.name} reads its channels")
    return True


def _until_groups(program: Program, shuffle: list[Node]) -> list[Node]:
    """Return the nodes behind *shuffle* to the next grouped convolution, if those before it keep channels apart.

    Empty when there is no such convolution, or when a result on the way is read elsewhere.
    """
    chain: list[Node] = []
    while (reader := _only_reader(program, chain[-1] if chain else shuffle[-1])) is not None and not reader.fused:
        p = reader.primitive
        chain.append(reader)
        if isinstance(p, Activation):
            continue
        if not isinstance(p, Convolution) or p.groups == 1 or not has_plain_weights(reader):
            return []
        if p.groups != reader.inputs[0].layout.shape[1] or p.groups != reader.output.layout.shape[1]:
            return chain
    return []


def _reorder_outputs(program: Program, context: Context, node: Node, order: NDArray[np.int64]) -> Node:
    """Put *node* with its output channels in this order, and without bands, in its place."""
    weights = node.inputs[1].constant
    assert weights is not None
    moved = context.packed.once(("order", order.tobytes()), [weights], lambda: weights[order])
    inputs = [node.inputs[0], constant_of(program, node, "weights", moved)]
    if node.arity > 2:
        bias = node.inputs[2].constant
        assert bias is not None
        inputs.append(constant_of(program, node, "bias", np.broadcast_to(bias.ravel(), len(order))[order]))
    assert isinstance(node.primitive, Convolution)
    return substitute(program, [node], replace(node.primitive, bands=1, shuffled=1), inputs)


def _shuffle_behind(program: Program, node: Node) -> list[Node]:
    """Return what makes the shuffled tensor of *node*'s: the last activation or *node*, reshape, transpose, reshape.

    Empty when there is none, or when a result on the way is read elsewhere.
    """
    chain = [node]
    while (reader := _only_reader(program, chain[-1])) is not None and len(chain) < 16:
        chain.append(reader)
        if isinstance(reader.primitive, Reshape) and len(chain) > 3 and isinstance(chain[-2].primitive, Transpose):
            break
        if not isinstance(reader.primitive, Activation | Reshape | Transpose) or reader.fused:
            return []
    made = chain[-4:]
    if len(chain) < 4 or not all(isinstance(n.primitive, Reshape) for n in (made[1], made[3])):
        return []
    if not all(isinstance(n.primitive, Activation) for n in chain[1:-3]) or apart(chain) is not None:
        return []
    shape, split = made[0].output.layout.shape, made[1].output.layout.shape
    transpose = made[2].primitive
    swapped = isinstance(transpose, Transpose) and transpose.axes == (0, 2, 1, *range(3, len(split)))
    parted = len(split) == len(shape) + 1 and (split[0], *split[3:]) == (shape[0], *shape[2:])
    return made if swapped and parted and made[3].output.layout.shape == shape else []


def _only_reader(program: Program, node: Node) -> Node | None:
    readers = node.output.readers
    if len(readers) != 1 or read_outside(program, node.output, readers) is not None or len(node.output.uses) != 1:
        return None
    return readers[0]


def _shuffled(program: Program, context: Context, node: Node, shuffle: list[Node], table: list[str]) -> Node:
    """Give *node* its output channels in the order that *shuffle* makes, and remove the shuffle."""
    split = shuffle[1].output.layout.shape
    table.append(f"{', '.join(n.name for n in shuffle[1:])}: into the order of the output channels of {node.name}")
    made = _reorder_outputs(program, context, node, _order(split[1] * split[2], split[1]))
    result = shuffle[3].output.name
    source = shuffle[0] if isinstance(shuffle[0].primitive, Activation) else made
    for moved in shuffle[1:]:
        bypass(program, moved)
    if program.is_output(source.output):
        source.output.name = result
    return made
