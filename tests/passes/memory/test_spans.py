"""Two positions a buffer say of an in-order queue what the rule of liveness says."""

from __future__ import annotations

import pytest

from clgraph.graph.program import Program
from clgraph.passes.memory.liveness import Liveness
from tests.support.programs import ADD, RELU, Net
from tests.support.random_dags import ORDERED, plan, random_program


def assert_as_liveness_says(program: Program) -> None:
    liveness = Liveness.of(program)
    end = len(liveness.nodes)
    for buffer, touch in liveness.touches.items():
        assert (buffer.first, buffer.last) == (touch.first(), touch.last(end)), buffer
    assert set(liveness.touches) == set(program.buffers)


@pytest.mark.parametrize("block", range(3))
def test_random_programs_have_the_positions_of_the_rule(block: int) -> None:
    taken = 0
    for seed in range(block * 12, block * 12 + 12):
        program = plan(random_program(seed), ORDERED)
        assert_as_liveness_says(program)
        taken += sum(n.output.buffer in [v.buffer for v in n.inputs] for n in program if not n.in_place)
    assert taken


def test_what_the_caller_feeds_or_reads_is_not_taken_over() -> None:
    net = Net()
    a = net.add("a", RELU, net.input("x", (1, 16, 8, 8)))
    net.add("b", RELU, a)
    net.add("c", ADD, "b", "b")
    program = plan(net.program("a", "c"), ORDERED)
    buffers = {n.name: n.output.buffer for n in program}
    assert len({program.inputs[0].buffer, *buffers.values()}) == len(buffers) + 1 - (buffers["b"] is buffers["c"])
    assert buffers["a"] not in (program.inputs[0].buffer, buffers["b"])
    assert_as_liveness_says(program)
