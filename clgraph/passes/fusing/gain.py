"""Whether two nodes may be fused, and whether the fused one is faster: asked by all passes that fuse operations."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from clgraph.core.frozen import mutable
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.passes.base import Context
from clgraph.passes.rewriting import apart, read_outside
from clgraph.passes.selection import proposals, still_serves
from clgraph.selector.implementation import Implementation
from clgraph.selector.query import Query

MOST_FUSED = 32
"""Operations that are fused into one node: further ones cost as much to add as all before, and save next to nothing."""


def why_apart(program: Program, between: Value, reader: Node, other: Node) -> str | None:
    """Say why *reader* cannot become one node with *other*, which makes the value between them, or return ``None``."""
    if (why := read_outside(program, between, [reader]) or apart([other, reader])) is not None:
        return why
    if between.has_many_uses:
        return f"{reader.name} reads {between.name} twice"
    for node in (reader, other):
        if node.primitive.kind == "eltwise" and len({v.layout.dtype for v in node.inputs[: node.arity]}) > 1:
            return f"{node.name} takes two element types"
    fused = len(reader.fused) + len(other.fused) + 1
    return f"the node would have {fused} fused operations, of at most {MOST_FUSED}" if fused > MOST_FUSED else None


@mutable
class Gain:
    """Decides whether a fusion pays, and remembers the best implementation of each node.

    If that still serves the node with the operation fused, the fusion pays without a comparison of estimates.
    """

    context: Context
    best: dict[Node, type[Implementation[Any]]] = field(default_factory=dict)

    def refusal(self, into: Node, apart_query: Query[Any], peer: Node, fused: Query[Any]) -> str | None:
        """Say why *fused* is no gain: nobody serves it, or the two nodes apart are faster. ``None`` when it is one."""
        if fused.device.kind == "host":
            return "the host computes one operation after the other"
        alone = () if into in self.best else proposals(self.context, into, apart_query)
        if alone:
            self.best[into] = alone[0].implementation
        if into in self.best and still_serves(self.best[into], fused):
            return None
        together = proposals(self.context, into, fused)
        if not together:
            return f"no implementation of {into.primitive.kind} on {fused.device.name} serves it"
        implementation, seconds = together[0].implementation, together[0].seconds
        alone, following = proposals(self.context, into, apart_query), proposals(self.context, peer)
        if alone and following and seconds > (apart := alone[0].seconds + following[0].seconds):
            return f"{implementation.name} would take {seconds:.2g} s, the two apart {apart:.2g} s"
        self.best[into] = implementation
        return None
