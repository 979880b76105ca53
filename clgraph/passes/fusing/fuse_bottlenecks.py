"""Make one node of a depthwise convolution and the 1x1 convolutions around it. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.ops.bottleneck import POINT, Bottleneck
from clgraph.ops.convolution import Convolution
from clgraph.passes.base import Context, Pass
from clgraph.passes.fusing.weight_scaling import constant_of, has_plain_weights
from clgraph.passes.rewriting import apart, read_outside, substitute
from clgraph.passes.selection import proposals
from clgraph.selector.query import Query

OWN_CACHE = 1 << 19
"""Bytes that stay in a worker's own cache from one step to the next, beside what else a step reads and writes."""

MARGIN = 0.08
"""The part of the time that must be saved: estimates are no better than that."""


class FuseBottlenecks(Pass):
    """Let a depthwise convolution do the work of the 1x1 convolutions around it.

    What lies between them then never leaves a core's cache. One of the two may be missing: where a gate stands between,
    or nothing expands. Done where one node is estimated faster than the convolutions apart, on a device with more than
    the general implementation of it. Counts the bottlenecks.
    """

    name: ClassVar[str] = "fuse_bottlenecks"
    handles: ClassVar[Mapping[str, str]] = {
        "activation": "between the convolutions of a bottleneck: becomes a part of it",
        "convolution": "a depthwise one and the 1x1 ones around it become one node, where that is faster",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes, fused = list[str](), 0
        for node in program:
            if node in program and _is_depthwise(node):
                fused += _fuse(program, context, node, notes)
        self.note(program, notes)
        return fused


@frozen
class _Chain:
    """What could become one node: the convolutions, what is applied to all their results but the last, in order."""

    depthwise: Node
    expand: Node | None = None
    expanded: tuple[Node, ...] = ()
    filtered: tuple[Node, ...] = ()
    project: Node | None = None

    @property
    def convolutions(self) -> list[tuple[Node, tuple[Node, ...]]]:
        """The convolutions, each with the activations behind it."""
        every = (self.expand, self.expanded), (self.depthwise, self.filtered), (self.project, ())
        return [(n, activations) for n, activations in every if n is not None]

    @property
    def nodes(self) -> list[Node]:
        """All of it, in order."""
        return [n for convolution, activations in self.convolutions for n in (convolution, *activations)]

    @property
    def primitive(self) -> Bottleneck:
        """The one operator."""
        convolution = self.depthwise.primitive
        assert isinstance(convolution, Convolution)
        expanded, filtered = (tuple(map(_activation, nodes)) for nodes in (self.expanded, self.filtered))
        return Bottleneck(convolution, expanded, filtered, self.expand is not None, self.project is not None)


def _fuse(program: Program, context: Context, node: Node, notes: list[str]) -> bool:
    """Let *node*, a depthwise convolution, do the work of the 1x1 convolutions around it, or note why not."""
    best: tuple[float, _Chain] | None = None
    for chain in _chains(node):
        reason, gain = _gain(program, context, chain)
        if reason is not None:
            notes.append(f"{', '.join(n.name for n in chain.nodes)}: no bottleneck: {reason}")
        elif best is None or gain > best[0]:
            best = gain, chain
    if best is None:
        return False
    chain = best[1]
    inputs = [chain.nodes[0].inputs[0]]
    for convolution, _ in chain.convolutions:
        inputs += [convolution.inputs[1], _bias(program, convolution)]
    notes.append(f"{', '.join(n.name for n in chain.nodes)}: a bottleneck")
    substitute(program, chain.nodes, chain.primitive, inputs, named=node)
    return True


def _is_depthwise(node: Node) -> bool:
    p = node.primitive
    if not isinstance(p, Convolution) or node.fused or node.output.layout.rank != 4 or not has_plain_weights(node):
        return False
    return p.groups > 1 and p.groups == node.inputs[0].layout.shape[1] == node.output.layout.shape[1]


def _is_point(node: Node | None) -> bool:
    if node is None or node.primitive != POINT or node.fused or not has_plain_weights(node):
        return False
    return node.inputs[1].layout.shape[2:] == (1, 1)


def _activation(node: Node) -> Activation:
    assert isinstance(node.primitive, Activation)
    return node.primitive


def _applied(node: Node) -> bool:
    return isinstance(node.primitive, Activation) and not node.fused and node.primitive.as_post(0) is not None


def _chains(node: Node) -> Iterator[_Chain]:
    """Yield the chains around a depthwise convolution, the longest first."""
    expanded: tuple[Node, ...] = ()
    filtered: tuple[Node, ...] = ()
    expand, project = node.inputs[0].producer, _reader(node)
    while expand is not None and _applied(expand):
        expanded = (expand, *expanded)
        expand = expand.inputs[0].producer
    while project is not None and _applied(project):
        filtered = (*filtered, project)
        project = _reader(project)
    if _is_point(expand) and _is_point(project):
        yield _Chain(node, expand, expanded, filtered, project)
    if _is_point(project):
        yield _Chain(node, filtered=filtered, project=project)
    if _is_point(expand):
        yield _Chain(node, expand, expanded)


def _reader(node: Node) -> Node | None:
    readers = node.output.readers
    return readers[0] if len(readers) == 1 else None


def _gain(program: Program, context: Context, chain: _Chain) -> tuple[str | None, float]:
    """Say why *chain* stays as it is, or ``None`` and the seconds that one node saves."""
    nodes = chain.nodes
    for made in nodes[:-1]:
        if (why := read_outside(program, made.output, nodes)) is not None:
            return why, 0.0
    if (why := apart(nodes)) is not None:
        return why, 0.0
    if forced := next((n.name for n in nodes if n.name in context.forced), None):
        return f"a kernel is forced on {forced}", 0.0
    together = proposals(context, chain.depthwise, _query(context, chain))
    if not together or together[0].implementation.general:
        return f"no implementation on {context.query(chain.depthwise).device.name} serves it", 0.0
    alone = 0.0
    for convolution, activations in chain.convolutions:
        q = replace(context.query(convolution), fused=tuple(Fused(n.primitive) for n in activations))
        if not (found := proposals(context, convolution, q)):
            return f"nothing serves {convolution.name} with {', '.join(n.name for n in activations)}", 0.0
        alone += found[0].seconds
    alone += _between_seconds(context, chain)
    seconds = together[0].seconds
    if seconds > alone * (1 - MARGIN):
        return f"it would take {seconds:.2g} s, the convolutions apart {alone:.2g} s", 0.0
    return None, alone - seconds


def _between_seconds(context: Context, chain: _Chain) -> float:
    """Return the time of writing and reading what lies between the convolutions and is too large for a worker's cache.

    The estimates of the convolutions do not know it: they take what fits the shared cache for hidden behind arithmetic.
    """
    device = context.query(chain.depthwise).device.whole
    made = [convolution.output.layout.nbytes for convolution, _ in chain.convolutions[:-1]]
    moved = 2 * sum(max(0, nbytes - OWN_CACHE) for nbytes in made)
    return moved / (device.costs.cache_bytes_per_second * device.workers)


def _query(context: Context, chain: _Chain) -> Query[Any]:
    """Return the problem that the one node would pose."""
    q, inputs = context.query(chain.depthwise), [chain.nodes[0].inputs[0].layout]
    for convolution, _ in chain.convolutions:
        weights = convolution.inputs[1].layout
        inputs += [weights, weights.with_shape(weights.shape[:1])]
    arity = len(inputs)
    outputs = (chain.nodes[-1].output.layout,)
    return Query(chain.primitive, tuple(inputs), outputs, q.device, arity, (), frozenset(range(1, arity)))


def _bias(program: Program, node: Node) -> Value:
    """Return the bias, one number an output channel; zeros where there is none."""
    weights = node.inputs[1].layout
    bias = node.inputs[2] if node.arity > 2 else None
    if bias is not None and bias.layout.shape == weights.shape[:1]:
        return bias
    data = np.zeros(1) if bias is None or bias.constant is None else bias.constant.reshape(-1)
    return constant_of(program, node, "bias", np.broadcast_to(data, weights.shape[:1]).astype(weights.dtype.numpy))
