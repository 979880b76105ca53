"""Give kernels their constants in the format they ask for. Answers clDNN's post_optimize_weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clgraph.core.format import Format
from clgraph.graph.program import Node, Program, Stage, Value
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.selection import choice_of, select


@dataclass(frozen=True)
class PostOptimizeWeights(Pass):
    """Insert a reorder behind every constant that an implementation wants in another format.

    Readers that ask for the same format of the same constant share one reorder, except across placements and different
    annotations. propagate_constants runs the reorders and keeps the results only. Counts the inputs rewired.
    """

    name: ClassVar[str] = "post_optimize_weights"
    required: ClassVar[bool] = True
    needs: ClassVar[Stage] = Stage.SELECTED

    def run(self, program: Program, context: Context) -> int:
        made: dict[tuple[Value, Format, str | None, str | None], Node] = {}
        changes = 0
        for node in program:
            choice = choice_of(node)
            for slot, wanted in choice.implementation.weights(choice.query).items():
                value = node.inputs[slot]
                if value.constant is None or value.layout.format == wanted:
                    continue
                key = (value, wanted, node.placement, node.annotation)
                if key not in made:
                    made[key] = program.insert(Reorder(value.layout.dtype, wanted), [value], sources=[node])
                    made[key].choice = select(context, made[key])
                program.rewire(value, made[key].output, uses=((node, slot),))
                changes += 1
            node.choice = choice.posed(context.query(node))
        return changes
