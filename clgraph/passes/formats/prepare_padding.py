"""Put the zeros that kernels read around their inputs into the layouts. Answers clDNN's prepare_padding."""

from __future__ import annotations

from typing import Any, ClassVar

from clgraph.core.layout import Halo, Layout
from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.memory.sharing import WouldShare, joins
from clgraph.passes.selection import widest, with_halos
from clgraph.selector.choose import Choice
from clgraph.selector.implementation import IMPLEMENTATIONS, overrides
from clgraph.selector.query import Query


class PreparePadding(Pass):
    """Give each value the widest halo that its readers' provisional choices read.

    The producer then writes the zeros, every run, when its implementation serves halos and every other reader can read
    the wider tensor; otherwise a reorder copies the tensor into a halo for the readers that need one. Graph inputs,
    whose memory the caller fills, and graph outputs, which are dense, always take the reorder. (Explicit padding with
    zeros has become pads of convolutions in fuse_patterns.) Counts the values with a halo and the reorders.
    """

    name: ClassVar[str] = "prepare_padding"
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        changes = 0
        for value in program.values:
            wanted = {} if value.constant is not None else _wanted(context, value)
            if not wanted:
                continue
            halo = value.layout.halos
            for need in wanted.values():
                halo = widest(halo, need)
            layout = value.layout.with_halo(halo)
            if _can_hold(program, context, value, layout):
                value.layout = layout
                changes += 1
            else:
                changes += _copy(program, value, wanted)
        return changes

    def describe(self, kind: str) -> str:
        own = IMPLEMENTATIONS.of(kind)
        asks = any(overrides(i, "halo") for i in own)
        writes = any(i.serves.halos for i in own)
        told = "asks for zeros around its inputs" if asks else "asks for no halo"
        return f"{told}; {'writes' if writes else 'does not write'} one around its result"


def _wanted(context: Context, value: Value) -> dict[tuple[Node, int], Halo]:
    """Return the halos that readers need and *value* does not have, by use."""
    found: dict[tuple[Node, int], Halo] = {}
    for node, slot in value.uses:
        if node.choice is None:
            node.choice = _provisional(context, node)
        if not isinstance(node.choice, Choice) or not overrides(node.choice.implementation, "halo"):
            continue
        implementation, q = node.choice.implementation, context.query(node)
        halo = implementation.halo(q).get(slot) if implementation.serves.refusal(q) is None else None
        if halo is not None and not value.layout.has_zeros(halo):
            found[node, slot] = halo
    return found


def _provisional(context: Context, node: Node) -> Choice | None:
    """Return what would be chosen for the layouts there are; ``None`` when add_required_reorders has to help."""
    try:
        return context.choose(node)
    except UnsupportedError:
        return None


def _can_hold(program: Program, context: Context, value: Value, layout: Layout) -> bool:
    """Whether the producer writes and all readers read *value* as *layout*."""
    producer = value.producer
    if producer is None or program.is_output(value):
        return False
    if isinstance(producer.choice, Choice) and producer.choice.implementation is WouldShare and joins(producer):
        # The halo of a joined tensor is that of its parts.
        for part in producer.inputs:
            if not _can_hold(program, context, part, part.layout.with_halo(layout.halo)):
                return False
    q = context.query(producer)
    outputs = tuple(layout if v is value else x for v, x in zip(producer.outputs, q.outputs, strict=True))
    laid_out = [(producer, q.with_layouts(q.inputs, outputs))]
    for node in value.readers:
        q = context.query(node)
        inputs = tuple(layout if v is value else x for v, x in zip(node.inputs, q.inputs, strict=True))
        laid_out.append((node, q.with_layouts(inputs, q.outputs)))
    return all(_serves(context, node, q) for node, q in laid_out)


def _serves(context: Context, node: Node, q: Query[Any]) -> bool:
    """Whether the provisional choice of *node* serves *q*, given whatever other halos it reads."""
    choice = node.choice or _provisional(context, node)
    if not isinstance(choice, Choice) or choice.implementation.serves.refusal(q) is not None:
        return False
    return choice.implementation.refusal(with_halos(q, dict(choice.implementation.halo(q)))) is None


def _copy(program: Program, value: Value, wanted: dict[tuple[Node, int], Halo]) -> int:
    """Copy *value* into a halo, once for the readers of each placement and annotation; return the number of copies."""
    groups: dict[tuple[str | None, str | None], list[tuple[Node, int]]] = {}
    for node, slot in wanted:
        groups.setdefault((node.placement, node.annotation), []).append((node, slot))
    for uses in groups.values():
        halo = value.layout.halos
        for use in uses:
            halo = widest(halo, wanted[use])
        first = min((node for node, _ in uses), key=program.position)
        reorder = Reorder(value.layout.dtype, value.layout.format, halo)
        made = program.insert(reorder, [value], sources=[first], before=first)
        program.rewire(value, made.output, uses=uses)
    return len(groups)
