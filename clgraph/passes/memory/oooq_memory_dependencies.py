"""Further memory dependencies of an out-of-order queue. Answers clDNN's oooq_memory_dependencies."""

from __future__ import annotations

from itertools import combinations
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.memory.liveness import Liveness


class OooqMemoryDependencies(Pass):
    """Record the pairs that an out-of-order queue may have alive at once; for an in-order queue add none and say so.

    Two buffers may share only when all that touches the one is a strict ancestor of all that writes the other.
    """

    name: ClassVar[str] = "oooq_memory_dependencies"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.SELECTED

    def run(self, program: Program, context: Context) -> int:
        if not context.out_of_order:
            program.notes[self.name] = "the queue runs in order: nothing to add to memory_dependencies"
            return 0
        liveness, added = Liveness.of(program), 0
        for (one, first), (two, second) in combinations(liveness.touches.items(), 2):
            if one.placement != two.placement or one.meets(two):
                continue
            one_then_two = not second.fed and liveness.before(first, second.writers)
            two_then_one = not first.fed and liveness.before(second, first.writers)
            if not one_then_two and not two_then_one:
                one.add_conflict(two)
                added += 1
        return added
