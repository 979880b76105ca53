"""Move constant factors from in front of a matrix product to behind it. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.node import Node
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import apart, read_outside


class SinkScales(Pass):
    """Multiply the result of a matrix product instead of an operand: ``(a * c) b`` is ``(a b) * c``.

    Behind the product a factor can become part of constant weights or a post-operation; in front of it, it is a pass
    over memory. Wants that nothing else reads the scaled operand and that the product has no bias.
    """

    name: ClassVar[str] = "sink_scales"
    handles: ClassVar[Mapping[str, str]] = {
        "activation": "a linear one without a shift moves behind the matrix product that alone reads it",
        "matmul": "takes factors of its operands behind it",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes = [note for n in program if isinstance(n.primitive, MatMul) for note in _sink(program, n)]
        self.note(program, notes)
        return len(notes)


def _sink(program: Program, node: Node) -> list[str]:
    """Move the factors of both operands of *node*; return a note for each."""
    notes = []
    for slot, value in enumerate(node.inputs[:2]):
        scale, layout = value.producer, value.layout
        if scale is None or scale.fused or not isinstance(scale.primitive, Activation) or not layout.dtype.floating:
            continue
        linear = scale.primitive.function == "linear" and scale.primitive.beta == 0
        alone = read_outside(program, value, [node]) is None and value.has_one_use and node.arity == 2
        if not linear or not alone or node.fused or apart([scale, node]) is not None:
            continue
        program.rewire(value, scale.inputs[0], uses=[(node, slot)])
        after = program.insert(scale.primitive, [node.output], sources=[scale])
        program.rewire(node.output, after.output, uses=[u for u in node.output.uses if u[0] is not after])
        program.outputs = [(name, after.output if v is node.output else v) for name, v in program.outputs]
        program.erase(scale)
        notes.append(f"{scale.name}: from in front of {node.name} to behind it")
    return notes
