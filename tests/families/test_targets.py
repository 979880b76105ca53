"""Passes that a target adds behind the choice of kernels run for every member, as they do for whole compilations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pytest

from clgraph.families.families import Families
from clgraph.families.family import PassRow
from clgraph.graph.program import Milestone, Program
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.passes.base import Context, Pass
from clgraph.passes.manager import PassManager
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.targets.target import Phase, TargetPass
from tests.support.fake_target import fake_target


@dataclass(frozen=True)
class Leaves(Pass):
    """Leaves a note."""

    name: ClassVar[str] = "leaves"
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        program.notes["left"] = str(program.inputs[0].layout.shape)
        return 0


def passes_over(program: Program, shapes: Sequence[object], context: Context) -> Sequence[PassRow]:
    PassManager(default_pipeline()).run(program, context)
    return ()


@pytest.mark.parametrize("phase", [Phase.SCHEDULING, Phase.MEMORY_ALLOCATION, Phase.CODE_EMISSION])
def test_a_member_sees_the_passes_of_its_target(phase: Phase) -> None:
    topology = Topology()
    topology.output("y", topology.add("y", Activation("relu"), topology.input("x", ("n", 8))))
    with fake_target(["activation"], (TargetPass(phase, Leaves()),)) as info:
        context = Context(devices={info.name: info})
        member = Families(context).bind(topology, [(3, 8)], {}, partial(passes_over, context=context)).program
    assert member.notes["left"] == "(3, 8)"
