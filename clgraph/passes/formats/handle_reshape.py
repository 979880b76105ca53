"""Remove redundant reshapes. Answers clDNN's handle_reshape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.ops.reshape import Reshape
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import apart, bypass


class HandleReshape(Pass):
    """Let a reshape of a reshape read the first one's input, and remove reshapes to the shape there is already.

    A reshape whose input lies dense in row-major order costs nothing; prepare_buffer_fusing lets it share its input's
    buffer once every layout is known. Around any other input the formats were chosen by reorder_inputs.
    """

    name: ClassVar[str] = "handle_reshape"
    handles: ClassVar[Mapping[str, str]] = {
        "reshape": "disappears where it only reinterprets, or meets another one",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        changes = 0
        for node in program:
            if not isinstance(node.primitive, Reshape) or node.fused:
                continue
            first = node.inputs[0].producer
            if first is not None and isinstance(first.primitive, Reshape) and not first.fused:
                if apart((first, node)) is not None:
                    continue
                program.rewire(first.output, first.inputs[0], uses=((node, 0),))
                node.choice = None
                changes += 1
                if not first.output.uses and not program.is_output(first.output):
                    program.erase(first)
            source, result = node.inputs[0].layout, node.output.layout
            if source.shape == result.shape and source.format == result.format and source.halo == result.halo:
                changes += bypass(program, node)
        return changes
