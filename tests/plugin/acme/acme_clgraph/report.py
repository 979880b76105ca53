"""Say what of a program runs as operators of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass


@dataclass(frozen=True)
class Report(Pass):
    """Leave a note with the number of nodes that are ``acme_conv_relu``."""

    name: ClassVar[str] = "acme_report"
    needs: ClassVar[Milestone] = Milestone.PLANNED

    def run(self, program: Program, context: Context) -> int:
        own = sum(node.primitive.kind == "acme_conv_relu" for node in program)
        program.notes["acme"] = f"{own} of {len(program)} nodes are the target's own"
        return 0
