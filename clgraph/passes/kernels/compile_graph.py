"""Choose the implementation of each node. Answers clDNN's compile_graph."""

from __future__ import annotations

from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.selection import select, stands
from clgraph.selector.choose import Choice
from clgraph.selector.implementation import IMPLEMENTATIONS


class CompileGraph(Pass):
    """Choose for every node; a provisional choice for the same problem stands, so only what changed is chosen again.

    Layouts are final: an implementation that reads more zeros than its inputs have is refused here. Counts the nodes
    whose implementation differs from the provisional one.
    """

    name: ClassVar[str] = "compile_graph"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.FORMATTED
    reaches: ClassVar[Milestone | None] = Milestone.SELECTED

    def run(self, program: Program, context: Context) -> int:
        changes = 0
        for node in program:
            q, old = context.query(node), node.choice
            if isinstance(old, Choice):
                if node.in_place:
                    node.choice = old.with_query(q)
                    continue
                if stands(old, q):
                    continue
            chosen = select(context, node, q)
            changes += not isinstance(old, Choice) or old.implementation is not chosen.implementation
            node.choice = chosen
        return changes

    def describe(self, kind: str) -> str:
        names = [i.name for i in IMPLEMENTATIONS.of(kind)]
        return f"gets one of {', '.join(names)}" if names else "has no implementation: it runs on the host"
