"""Pixels that become channels in front of a convolution: the rule of ``decompose`` for the Focus layer of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.slice import Slice
from clgraph.ops.space import Shuffle
from clgraph.passes.rewriting import apart, read_outside, substitute

_LANES = 16
"""Channels of a block: pixels of fewer are read as they lie, in planes."""


@frozen
class Phases:
    """Channels that are the pixels of blocks of x.

    Attributes:
        block: Size of a block along each spatial axis.
        order: Where in its block each run of x's channels is from; every pixel once.
        channels_first: Channel ``c * pixels + pixel`` instead of ``pixel * channels + c``.
        nodes: What spells it, in order.
    """

    x: Value
    block: tuple[int, ...]
    order: tuple[tuple[int, ...], ...]
    nodes: tuple[Node, ...]
    channels_first: bool = False


def take_pixels(program: Program, node: Node) -> bool:
    """Spell slices that hold the pixels of blocks, joined for a convolution, as a space to depth.

    Its weights are put in its order. A convolution of windows of one element becomes one of the pixels themselves, with
    windows and steps of a block: its products are the same ones, and nothing has to be moved. Others stay behind the
    space to depth, because those of larger windows that lie pixel by pixel can be transformed (Winograd's method).
    """
    p = node.primitive
    weights = node.inputs[1].constant if isinstance(p, Convolution) else None
    if not isinstance(p, Convolution) or weights is None or node.fused or p.groups > 1 or p.bands > 1 or p.apart:
        return False
    last = node.inputs[0].producer
    found = None if last is None or last.fused else _of_shuffle(last) or _of_slices(last)
    if last is None or found is None or found.x.constant is not None:
        return False
    nodes = (*found.nodes, node)
    if apart(nodes) or any(read_outside(program, n.output, nodes) for n in found.nodes):
        return False
    if prod(weights.shape[2:]) == 1 and found.x.layout.shape[1] < _LANES:
        _widen(program, node, p, weights, found)
        return True
    if isinstance(last.primitive, Shuffle) or len(set(found.block)) > 1 or len(found.block) != 2:
        return False
    shuffled = substitute(program, found.nodes, Shuffle(found.block[0], to_depth=True), [found.x])
    channels = found.x.layout.shape[1]
    runs = weights.reshape(weights.shape[0], len(found.order), channels, *weights.shape[2:])
    ordered = runs[:, sorted(range(len(found.order)), key=found.order.__getitem__)].reshape(weights.shape)
    inputs = [shuffled.output, program.constant(f"{node.name}/weights", ordered), *node.inputs[2:]]
    substitute(program, (node,), p, inputs)
    return True


def _widen(program: Program, node: Node, p: Convolution, weights: Array, found: Phases) -> None:
    outputs, _, *ones = weights.shape
    split = (*found.block, found.x.layout.shape[1])
    if found.channels_first:
        wide = weights.reshape(outputs, split[-1], *found.block)
    else:
        order = sorted(range(len(found.order)), key=found.order.__getitem__)
        wide = np.moveaxis(weights.reshape(outputs, len(order), -1)[:, order].reshape(outputs, *split), -1, 1)
    pads = tuple((b * before, b * behind) for b, (before, behind) in zip(found.block, p.pads, strict=True))
    steps = tuple(b * s for b, s in zip(found.block, p.strides, strict=True))
    inputs = [found.x, program.constant(f"{node.name}/weights", np.ascontiguousarray(wide)), *node.inputs[2:]]
    made = replace(p, strides=steps, pads=pads, dilations=(1,) * len(ones))
    substitute(program, (*found.nodes, node), made, inputs, node)


def _of_shuffle(node: Node) -> Phases | None:
    p = node.primitive
    if not isinstance(p, Shuffle) or not p.to_depth:
        return None
    block = (p.size, p.size)
    return Phases(node.inputs[0], block, tuple(product(*map(range, block))), (node,), p.channels_first)


def _of_slices(node: Node) -> Phases | None:
    if not isinstance(node.primitive, Concat) or node.primitive.axis != 1 or len(node.inputs) < 2:
        return None
    parts = [_sliced(v) for v in node.inputs]
    x, steps, _, _ = parts[0]
    block = steps[2:]
    if len(parts) != prod(block) or any(p[0] is not x or p[1] != steps for p in parts):
        return None
    whole = all(n % b == 0 and b > 0 for n, b in zip(x.layout.shape[2:], block, strict=True))
    sizes = (x.layout.shape[1], *(n // b for n, b in zip(x.layout.shape[2:], block, strict=True) if b > 0))
    order = tuple(starts[2:] for _, _, starts, _ in parts)
    if not whole or steps[:2] != (1, 1) or any(v.layout.shape[1:] != sizes for v in node.inputs):
        return None
    if sorted(order) != list(product(*map(range, block))) or any(any(starts[:2]) for _, _, starts, _ in parts):
        return None
    slices = tuple(dict.fromkeys(n for *_, nodes in parts for n in nodes))
    return Phases(x, block, order, (*slices, node))


def _sliced(value: Value) -> tuple[Value, tuple[int, ...], tuple[int, ...], tuple[Node, ...]]:
    """Return what *value* is a slice of, by one or several: the first one's input, steps, starts, and the slices."""
    rank = value.layout.rank
    steps, starts, nodes = (1,) * rank, (0,) * rank, list[Node]()
    while (node := value.producer) is not None and isinstance(p := node.primitive, Slice) and not node.fused:
        starts = _along(p.starts, p.steps, starts)
        steps = tuple(a * b for a, b in zip(p.steps, steps, strict=True))
        nodes.insert(0, node)
        value = node.inputs[0]
    return value, steps, starts, tuple(nodes)


def _along(first: Sequence[int], steps: Sequence[int], starts: Sequence[int]) -> tuple[int, ...]:
    return tuple(f + s * at for f, s, at in zip(first, steps, starts, strict=True))
