"""Compute equal things once: common subexpression elimination (Cocke 1970). clDNN leaves it to the model's tools."""

from __future__ import annotations

from typing import ClassVar

from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.passes.base import Context, Pass


class MergeEqualNodes(Pass):
    """Let one node stand for all that have the same primitive and read the same values.

    Exporters spell out for each layer what all layers share: the sines and cosines of a text's places, masks, shapes.
    Nodes stay that the user has named (a placement, a kernel) or annotated otherwise, those that make results of the
    graph, and those that update what they read. Counts the nodes that went.
    """

    name: ClassVar[str] = "merge_equal_nodes"

    def run(self, program: Program, context: Context) -> int:
        first: dict[tuple[Primitive, tuple[Value, ...], str | None], Node] = {}
        gone = 0
        for node in program if not context.placement else ():
            if node.primitive.updates or node.fused or node.name in context.forced:
                continue
            kept = first.setdefault((node.primitive, node.inputs, node.annotation), node)
            if kept is node or any(map(program.is_output, node.outputs)):
                continue
            for value, same in zip(node.outputs, kept.outputs, strict=True):
                program.rewire(value, same)
                program.merged[value.name] = same.name
            kept.origin = tuple(dict.fromkeys((*kept.origin, *node.origin)))
            program.erase(node)
            gone += 1
        return gone
