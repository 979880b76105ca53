"""Channels that become pixels: the rules of ``decompose`` for shuffles and for windows that do not overlap."""

from __future__ import annotations

from math import prod

import numpy as np

from clgraph.graph.integers import Integers
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.reshape import Reshape
from clgraph.ops.space import Shuffle
from clgraph.ops.transpose import Transpose

_LANES = 16
"""Channels of a block: what a convolution computes at once, whether they are there or not."""

_LESS = 4
"""How many times fewer blocks pay for moving the pixels afterwards."""


def spread_shuffle(program: Program, node: Node) -> bool:
    """Spell a shuffle of channels to pixels as a transpose between two reshapes, which move runs of neighbours."""
    p = node.primitive
    if not isinstance(p, Shuffle) or p.to_depth or not node.output.layout.count:
        return False
    (x,), block = node.inputs, (p.size,) * 2
    _spread(program, node, x, x.layout.shape[1] // prod(block), block, first=p.channels_first)
    return True


def spread_windows(program: Program, node: Node) -> bool:
    """Make a transposed convolution whose windows do not overlap a convolution of one element and a shuffle.

    Each output pixel has one product a channel, of one of the kernel's elements, so that these are as good as channels.
    Only where the results are few channels, which would each fill a block: the map of a segmentation.
    """
    p, constants = node.primitive, [v.constant for v in node.inputs[1:]]
    if not isinstance(p, ConvTranspose) or node.fused or not constants or constants[0] is None:
        return False
    x, weights, bias = node.inputs[0], constants[0], constants[1] if len(constants) > 1 else None
    outputs, kernel = weights.shape[1], weights.shape[2:]
    block = prod(kernel)
    fewer = fewer_blocks(outputs, block, 1, block)
    if not (p.lies_side_by_side(kernel) and p.groups == 1 and fewer and x.layout.count) or (
        len(constants) > 1 and bias is None
    ):
        return False
    flat = np.moveaxis(weights, 0, -1).reshape(outputs * block, weights.shape[0], *(1,) * len(kernel))
    inputs = [x, program.constant(f"{node.name}/weights", np.ascontiguousarray(flat))]
    inputs[1].integers = _spread_integers(node.inputs[1].integers, block)
    if bias is not None:
        inputs.append(program.constant(f"{node.name}/bias", np.repeat(bias, block)))
    ones = (1,) * len(kernel)
    made = Convolution(strides=ones, dilations=ones, pads=((0, 0),) * len(kernel))
    wide = program.insert(made, inputs, sources=[node], name=f"{node.name}/conv", before=node)
    _spread(program, node, wide.output, outputs, kernel, first=True)
    return True


def fewer_blocks(outputs: int, phases: int, window: int, kernel: int) -> bool:
    """Whether phases as channels, with windows of so many elements, are much fewer products of blocks than a kernel."""
    return _LESS * -(-outputs * phases // _LANES) * window <= -(-outputs // _LANES) * kernel


def _spread_integers(found: Integers | None, block: int) -> Integers | None:
    """Return the integers of weights ``[C, O, *kernel]`` as those of ``[O * block, C, ...]``."""
    if found is None or (found.scale.size != 1 and found.axis != 1):
        return None
    data, one = found.data, (1,) * (found.data.ndim - 2)
    flat = np.ascontiguousarray(np.moveaxis(data, 0, -1).reshape(data.shape[1] * block, data.shape[0], *one))
    scale, zero = (v if v is None or v.size == 1 else np.repeat(v, block) for v in (found.scale, found.zero))
    assert scale is not None
    return Integers(flat, scale, zero, 0)


def _spread(program: Program, node: Node, value: Value, channels: int, block: tuple[int, ...], *, first: bool) -> None:
    """Put in the place of *node* what moves the elements of blocks from the channels of *value* to its pixels.

    Args:
        first: Channel ``c * elements + element`` instead of ``element * channels + c``.
    """
    images, _, *spatial = value.layout.shape
    rank = len(spatial)
    split = (channels, *block) if first else (*block, channels)
    channel, elements = (1, range(2, 2 + rank)) if first else (1 + rank, range(1, 1 + rank))
    axes = (0, channel, *(a for pair in zip(range(2 + rank, 2 + 2 * rank), elements, strict=True) for a in pair))
    for name, primitive in (
        ("split", Reshape((images, *split, *spatial))),
        ("turn", Transpose(axes)),
        ("merge", Reshape(node.output.layout.shape)),
    ):
        made = program.insert(primitive, [value], sources=[node], name=f"{node.name}/{name}", before=node)
        value = made.output
    program.rewire(node.output, value)
    program.erase(node)
    value.name = node.output.name
