"""Build what the plans name. Answers clDNN's build_implementations."""

from __future__ import annotations

from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass


class BuildKernels(Pass):
    """Build every kernel text once, or load it from the disk cache; in a dry run nothing, and a note says so.

    Counts the texts that were not in the cache.
    """

    name: ClassVar[str] = "build_kernels"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.PLANNED

    def run(self, program: Program, context: Context) -> int:
        if context.build is None:
            program.notes[self.name] = "dry run: no kernel was built"
            return 0
        return context.build(program)
