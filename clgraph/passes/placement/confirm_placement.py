"""Ask again whether each node can run where it stands. ONNX Runtime asks capability twice; clDNN has one device."""

from __future__ import annotations

from typing import ClassVar

from clgraph.errors import UnsupportedError
from clgraph.graph.program import Program, Stage
from clgraph.passes.base import Context, Pass
from clgraph.passes.placement.insert_transfers import uncarried
from clgraph.passes.selection import select


class ConfirmPlacement(Pass):
    """Check that every node, those inserted since partition too, has a placement that serves it as its layouts are.

    And that whatever a node reads is on its device. Changes nothing; all that is wrong is reported in one error, before
    a target's passes and the choice.
    """

    name: ClassVar[str] = "confirm_placement"
    needs: ClassVar[Stage] = Stage.FORMATTED

    def run(self, program: Program, context: Context) -> int:
        refused = uncarried(program)
        for node in program:
            if node.placement not in context.devices:
                refused.append(f"node {node.name!r} is placed on {node.placement}, which is no device here")
            elif not node.in_place:
                try:
                    select(context, node)
                except UnsupportedError as error:
                    refused.append(str(error))
        if refused:
            raise UnsupportedError("\n".join(refused))
        return 0
