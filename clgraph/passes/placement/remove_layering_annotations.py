"""Retire the annotations that partition has read. Answers ``Graph::RemoveAllLayeringAnnotations`` of ONNX Runtime."""

from __future__ import annotations

from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass


class RemoveLayeringAnnotations(Pass):
    """Move each node's annotation to ``partitioned_by``: from here on placements bind nodes, and hints do not.

    Nodes of one device that came with different annotations may become one node then, which names both. Without this
    pass later fusions refuse to merge such nodes, and nothing else changes.
    """

    name: ClassVar[str] = "remove_layering_annotations"
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        changes = 0
        for node in program:
            if node.annotation is not None:
                node.partitioned_by, node.annotation = node.annotation, None
                changes += 1
        return changes
