"""Say what of a program runs as operators of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clgraph.graph.node import Node
from clgraph.graph.program import Program, Stage
from clgraph.graph.visitor import Visitor
from clgraph.passes.base import Context, Pass


class _Own(Visitor[int]):
    """Counts the operators of the target."""

    def visit_acme_conv_relu(self, node: Node) -> int:
        return 1

    def visit_default(self, node: Node) -> int:
        return 0


@dataclass(frozen=True)
class Report(Pass):
    """Leave a note with the number of nodes that are ``acme_conv_relu``."""

    name: ClassVar[str] = "acme_report"
    needs: ClassVar[Stage] = Stage.PLANNED

    def run(self, program: Program, context: Context) -> int:
        own = sum(_Own().visit_all(program))
        program.notes["acme"] = f"{own} of {len(program)} nodes are the target's own"
        return 0
