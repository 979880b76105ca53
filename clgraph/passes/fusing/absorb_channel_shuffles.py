"""Make channel shuffles an order of channels of the convolutions around them. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from clgraph.graph.node import Node
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context, Pass
from clgraph.passes.fusing.convolution_groups import best_merge, merge, merged_seconds, shuffled_order, unshuffled
from clgraph.passes.fusing.weight_scaling import constant_of, has_plain_weights
from clgraph.passes.rewriting import apart, bypass, read_outside, substitute
from clgraph.passes.selection import proposals

if TYPE_CHECKING:
    from numpy.typing import NDArray


class AbsorbChannelShuffles(Pass):
    """Let convolutions write or read channels in the order that a shuffle (reshape, transpose, reshape) would make.

    A shuffle behind a convolution, with nothing but activations between, becomes the order in which the next grouped
    convolution reads its channels, if only activations and depthwise convolutions are in between; else an order of
    output channels, which needs one group without bands: several are merged for it. Done where it is estimated faster
    than what merge_groups makes of the convolutions, and the shuffle.
    """

    name: ClassVar[str] = "absorb_channel_shuffles"
    handles: ClassVar[Mapping[str, str]] = {
        "convolution": "with constant weights it takes the order of a channel shuffle behind or in front of it",
        "reshape": "of a channel shuffle: goes",
        "transpose": "of a channel shuffle: goes",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes = list[str]()
        for node in program:
            p = node.primitive
            if node not in program or not isinstance(p, Convolution) or node.fused or not has_plain_weights(node):
                continue
            if shuffle := _shuffle_behind(program, node):
                _absorb(program, context, node, shuffle, notes)
        self.note(program, notes)
        return len(notes)


def _absorb(program: Program, context: Context, node: Node, shuffle: list[Node], notes: list[str]) -> None:
    p, gone = node.primitive, ", ".join(n.name for n in shuffle[1:])
    assert isinstance(p, Convolution)
    if p.groups > 1:
        if (reader := _read_shuffled(program, context, node, shuffle)) is not None:
            notes.append(f"{gone}: into the order in which {reader.name} reads its channels")
            return
        kept, ordered = best_merge(context, node), merged_seconds(context, node, p.groups, banded=False)
        moved = sum(found[0].seconds for n in shuffle[1:] if (found := proposals(context, n)))
        if kept is None or ordered is None or ordered >= kept[0] + moved:
            return
        node = merge(program, context, node, p.groups)
    _write_shuffled(program, context, node, shuffle)
    notes.append(f"{gone}: into the order of the output channels of {node.name}")


def _read_shuffled(program: Program, context: Context, node: Node, shuffle: list[Node]) -> Node | None:
    """Let the next grouped convolution read its channels as they were before *shuffle*, remove that, and return it.

    Done where the two convolutions are estimated faster than with *node* computing its channels in the new order.
    """
    between = _until_groups(program, shuffle)
    if not between or apart([*shuffle[1:], *between]) is not None:
        return None
    *chain, reader = between
    p, q = node.primitive, reader.primitive
    assert isinstance(p, Convolution)
    assert isinstance(q, Convolution)
    channels, ranges = shuffle[0].output.layout.shape[1], shuffle[1].output.layout.shape[1]
    merged = merged_seconds(context, node, p.groups)
    ordered = merged_seconds(context, node, p.groups, banded=False)
    gathered = merged_seconds(context, reader, q.groups, shuffled=ranges)
    banded = merged_seconds(context, reader, q.groups)
    if merged is None or ordered is None or gathered is None or banded is None or merged + gathered >= ordered + banded:
        return None
    for n in shuffle[1:]:
        bypass(program, n)
    for n in chain:
        if isinstance(n.primitive, Convolution):
            _reorder_outputs(program, context, n, unshuffled(channels, ranges))
    return merge(program, context, reader, q.groups, ranges)


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
    if len(readers) != 1 or read_outside(program, node.output, readers) is not None or not node.output.has_one_use:
        return None
    return readers[0]


def _write_shuffled(program: Program, context: Context, node: Node, shuffle: list[Node]) -> None:
    """Give *node* its output channels in the order that *shuffle* makes, and remove the shuffle."""
    split = shuffle[1].output.layout.shape
    made = _reorder_outputs(program, context, node, shuffled_order(split[1] * split[2], split[1]))
    result = shuffle[3].output.name
    source = shuffle[0] if isinstance(shuffle[0].primitive, Activation) else made
    for moved in shuffle[1:]:
        bypass(program, moved)
    if program.is_output(source.output):
        source.output.name = result
