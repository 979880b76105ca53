"""Order and trim. Answers clDNN's graph_initializations, mark_nodes and trim_to_outputs."""

from __future__ import annotations

from typing import ClassVar

from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.passes.base import Context, Pass


class Init(Pass):
    """Put the nodes into a topological order and remove those that reach no output.

    Graph inputs stay, read or not, so that a caller can still feed them. Constants need no mark of their own: a value
    that holds data is one.
    """

    name: ClassVar[str] = "init"
    required: ClassVar[bool] = True

    def run(self, program: Program, context: Context) -> int:
        program.sort()
        live: set[Value] = {value for _, value in program.outputs}
        dead = []
        for node in reversed(tuple(program)):
            if live.isdisjoint(node.outputs):
                dead.append(node)
            else:
                live.update(node.inputs)
        for node in dead:
            program.erase(node)
        return len(dead)

    def describe(self, kind: str) -> str:
        return "dropped where its results reach no output"
