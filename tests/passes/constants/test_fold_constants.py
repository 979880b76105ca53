from __future__ import annotations

import numpy as np

from clgraph.passes.base import Context
from clgraph.passes.constants.fold_constants import FoldConstants
from tests.support.programs import ADD, MUL, RELU, Net, lines, run


def test_a_constant_chain_becomes_its_value_under_the_last_name() -> None:
    net = Net()
    x = net.input("x", (1, 100, 50))
    c = net.add("c", RELU, net.add("b", ADD, net.data("p", 100, 50), net.data("q", 100, 50)))
    net.add("y", MUL, x, c)
    program = run(net.program("y"), FoldConstants())
    assert lines(program) == ["y f32:bfx:1x100x50 = eltwise(function=mul)(x, c)"]
    p, q = net.constants["p"], net.constants["q"]
    (folded,) = program.constants
    np.testing.assert_array_equal(folded.constant, np.maximum(p + q, 0))


def test_what_is_expensive_is_left_to_the_device() -> None:
    net = Net()
    x = net.input("x", (1, 80, 80))
    net.add("y", ADD, x, net.add("c", ADD, net.data("p", 1, 80, 1), net.data("q", 1, 1, 80)))
    program = net.program("y")
    assert FoldConstants(flops=10.0).run(program, Context()) == 0
    assert FoldConstants(elements=6399).run(program, Context()) == 0
    assert FoldConstants(elements=6400).run(program, Context()) == 1


def test_a_graph_output_may_be_folded_and_keeps_its_name() -> None:
    net = Net()
    net.input("x", (1,))
    net.add("c", RELU, net.data("p", 100, 100))
    program = net.program("c")
    FoldConstants().run(program, Context())
    assert len(program) == 0
    assert program.outputs[0][0] == "c"
    np.testing.assert_array_equal(program.outputs[0][1].constant, np.maximum(net.constants["p"], 0))
