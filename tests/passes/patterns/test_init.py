from __future__ import annotations

import pytest

from clgraph.errors import ProgramError
from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.passes.patterns.init import Init
from tests.support.programs import ADD, RELU, Net, lines, run


def test_nodes_that_reach_no_output_go_and_unread_inputs_stay() -> None:
    net = Net()
    x, _ = net.input("x", (1, 4)), net.input("unread", (2, 2))
    net.add("dead", RELU, net.add("dying", RELU, x))
    net.add("alive", RELU, x)
    program = run(net.program("alive"), Init())
    assert lines(program) == ["alive f32:bf:1x4 = activation(function=relu)(x)"]
    assert [v.name for v in program.inputs] == ["x", "unread"]


def test_a_node_of_which_one_result_is_read_stays() -> None:
    from clgraph.ops.split import Split

    net = Net()
    net.add("cut", Split(1, (1, 3)), net.input("x", (1, 4)), outputs=("a", "b"))
    program = run(net.program("b"), Init())
    assert len(program) == 1


def test_the_order_becomes_topological() -> None:
    net = Net()
    x = net.input("x", (1, 4))
    net.add("sum", ADD, net.add("a", RELU, x), net.add("b", RELU, x))
    made = net.program("sum")
    a, b, total = made
    shuffled = Program(made.inputs, made.outputs, [total, b, a])
    Init().run(shuffled, None)
    assert [n.name for n in shuffled] == ["b", "a", "sum"]


def test_a_cycle_is_an_error_that_names_its_nodes() -> None:
    net = Net()
    x = net.input("x", (1, 4))
    net.add("b", ADD, net.add("a", RELU, x), x)
    program = net.program("b")
    a, b = program
    program.rewire(x_value := a.inputs[0], b.output, uses=[(a, 0)])
    assert x_value.uses
    with pytest.raises(ProgramError, match=r"cycle runs through .*a"):
        Init().run(program, None)


def test_running_it_again_changes_nothing() -> None:
    net = Net()
    program = net.program(net.add("y", RELU, net.input("x", (1, 4))))
    assert Init().run(program, None) == 0
    assert all(isinstance(n, Node) for n in program)
