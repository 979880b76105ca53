"""Insert the reorders and transforms of constants that kernels declare. Answers clDNN's post_optimize_weights."""

from __future__ import annotations

from typing import ClassVar

from clgraph.core.format import Format
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program, Stage
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.selection import choice_of, select
from clgraph.selector.implementation import IMPLEMENTATIONS, overrides


class PostOptimizeWeights(Pass):
    """Insert a reorder behind every constant that an implementation declares in another format, or a transform.

    Readers that ask for the same of the same constant share one node, except across placements and different
    annotations. A node whose constant has been transformed becomes the primitive that reads the result.
    propagate_constants runs what was inserted and keeps the results only. Counts the inputs rewired.
    """

    name: ClassVar[str] = "post_optimize_weights"
    required: ClassVar[bool] = True
    needs: ClassVar[Stage] = Stage.SELECTED

    def run(self, program: Program, context: Context) -> int:
        made: dict[tuple[Value, Format | Primitive, str | None, str | None], Node] = {}
        changes = 0
        for node in program:
            choice = choice_of(node)
            primitive = node.primitive
            for slot, wanted in choice.implementation.weights(choice.query).items():
                value = node.inputs[slot]
                if value.constant is None or value.layout.format == wanted:
                    continue
                key = (value, wanted, node.placement, node.annotation)
                if key not in made:
                    inserted = wanted if isinstance(wanted, Primitive) else Reorder(value.layout.dtype, wanted)
                    made[key] = program.insert(inserted, [value], sources=[node])
                    made[key].choice = select(context, made[key])
                program.rewire(value, made[key].output, uses=((node, slot),))
                changes += 1
                if isinstance(wanted, Primitive):
                    primitive = choice.implementation.transformed(choice.query)
            node.primitive = primitive
            node.choice = choice.with_query(context.query(node))
        return changes

    def describe(self, kind: str) -> str:
        asks = any(overrides(i, "weights") for i in IMPLEMENTATIONS.of(kind))
        return "its constants are packed as its implementations ask" if asks else "asks for no packed weights"
