"""Merge groups of convolutions until they are whole blocks of channels. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.ops.convolution import Convolution
from clgraph.passes.base import Context, Pass
from clgraph.passes.fusing.convolution_groups import best_merge, has_plain_floats, merge


class MergeGroups(Pass):
    """Merge groups of a convolution that do not fill whole blocks of channels; weights between merged groups are -0.

    Neighbouring groups become one: as few as make whole blocks, else all of them, where that is estimated faster than
    the convolution as it is (``convolution_groups.best_merge``).
    """

    name: ClassVar[str] = "merge_groups"
    handles: ClassVar[Mapping[str, str]] = {
        "convolution": "groups that are no whole blocks of channels are merged, where that is faster"
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes = list[str]()
        for node in program:
            p = node.primitive
            if not isinstance(p, Convolution) or p.groups == 1 or node.fused or not has_plain_floats(node):
                continue
            best = best_merge(context, node)
            if best is not None and best[1] > 1:
                merge(program, context, node, best[1])
                notes.append(f"{node.name}: {p.groups} groups become {p.groups // best[1]}, of whole blocks")
        self.note(program, notes)
        return len(notes)
