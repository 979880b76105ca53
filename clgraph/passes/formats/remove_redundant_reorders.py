"""Remove reorders that nobody needs. Answers clDNN's pass of that name, which runs three times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from clgraph.core.layout import Layout
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import apart, bypass
from clgraph.passes.selection import estimate
from clgraph.selector.query import Query


class RemoveRedundantReorders(Pass):
    """Remove reorders that nobody needs, by five rules until none fires.

    * A reorder to the layout there is already vanishes.
    * A reorder of a reorder that changed no element type reads the first one's input, where that costs no more.
    * Two reorders of one value to one layout are one.
    * A producer whose only reader is the reorder writes the reorder's layout itself, where an implementation does that
      at no more than the cost of both.
    * Readers that can read the reorder's input as it is, at no more than the cost of both, do.

    Nodes of different annotations or placements are not merged, and a reorder between a graph input and a graph output
    stays. Counts the reorders that went.

    ShuffleNet on a GPU needs it: without, its last channel shuffle reads a copy of the convolution's result.
    """

    name: ClassVar[str] = "remove_redundant_reorders"
    handles: ClassVar[Mapping[str, str]] = {
        "reorder": "is what it removes",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        changes = 0
        while found := sum(_simplify(program, context, node) for node in program if node in program):
            changes += found
        return changes


def _simplify(program: Program, context: Context, node: Node) -> bool:
    if not isinstance(node.primitive, Reorder) or node.fused:
        return False
    source = node.inputs[0]
    if source.layout == node.output.layout:
        return bypass(program, node)
    if not node.output.uses and not program.is_output(node.output):
        program.erase(node)
        return True
    return (
        _skip_first(program, context, node, source)
        or _merge_siblings(program, node, source)
        or _write_directly(program, context, node, source)
        or _read_directly(program, context, node, source)
    )


def _skip_first(program: Program, context: Context, node: Node, source: Value) -> bool:
    first = source.producer
    if first is None or not isinstance(first.primitive, Reorder) or first.fused or apart((first, node)) is not None:
        return False
    if first.inputs[0].layout.dtype != source.layout.dtype:
        return False
    q = context.query(node)
    before, after = (
        estimate(context, node, q),
        estimate(context, node, q.with_layouts((first.inputs[0].layout,), q.outputs)),
    )
    own = 0.0 if source.has_many_uses else estimate(context, first, context.query(first))
    if after is None or (before is not None and own is not None and after > before + own):
        return False
    program.rewire(source, first.inputs[0], uses=((node, 0),))
    node.choice = None
    if not source.uses and not program.is_output(source):
        program.erase(first)
    return True


def _merge_siblings(program: Program, node: Node, source: Value) -> bool:
    for other in source.readers:
        alike = other is not node and isinstance(other.primitive, Reorder) and not other.fused
        if not alike or other.output.layout != node.output.layout or apart((other, node)) is not None:
            continue
        if program.position(other) < program.position(node) and other.inputs[0] is source:
            program.rewire(node.output, other.output)
            program.erase(node)
            return True
    return False


def _write_directly(program: Program, context: Context, node: Node, source: Value) -> bool:
    """Let the producer write the layout of the reorder's result."""
    producer, wanted = source.producer, node.output.layout
    if producer is None or source.has_many_uses or program.is_output(source) or wanted.dtype != source.layout.dtype:
        return False
    if apart((producer, node)) is not None:
        return False
    q = context.query(producer)
    outputs = tuple(wanted if v is source else x for v, x in zip(producer.outputs, q.outputs, strict=True))
    before, after = estimate(context, producer, q), estimate(context, producer, q.with_layouts(q.inputs, outputs))
    own = estimate(context, node, context.query(node))
    if after is None or (before is not None and own is not None and after > before + own):
        return False
    source.layout, producer.choice = wanted, None
    return bypass(program, node)


def _read_directly(program: Program, context: Context, node: Node, source: Value) -> bool:
    """Let every reader of the reorder's result read its input."""
    result = node.output
    readers = result.readers
    if program.is_output(result) or source.layout.dtype != result.layout.dtype or not readers:
        return False
    own = estimate(context, node, context.query(node))
    pairs = [(n, q, _reading(n, q, result, source.layout)) for n in readers for q in (context.query(n),)]
    before = _sum(estimate(context, n, q) for n, q, _ in pairs)
    after = _sum(estimate(context, n, q) for n, _, q in pairs)
    if after is None or (before is not None and own is not None and after > before + own):
        return False
    for reader in readers:
        reader.choice = None
    return bypass(program, node)


def _reading(node: Node, q: Query[Any], value: Value, layout: Layout) -> Query[Any]:
    return q.with_layouts(
        tuple(layout if v is value else x for v, x in zip(node.inputs, q.inputs, strict=True)), q.outputs
    )


def _sum(seconds: Iterable[float | None]) -> float | None:
    total = 0.0
    for s in seconds:
        if s is None:
            return None
        total += s
    return total
