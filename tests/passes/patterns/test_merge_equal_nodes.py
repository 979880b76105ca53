"""Equal nodes become one; what differs, is an output, is placed apart or updates what it reads stays."""

from __future__ import annotations

import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.cached_attention import CachedAttention
from clgraph.ops.gather import Gather
from clgraph.passes.base import Context
from clgraph.passes.patterns.merge_equal_nodes import MergeEqualNodes
from tests.support.programs import ADD, MUL, RELU, Net, run


def names(program) -> list[str]:
    return [node.name for node in program]


def test_equal_nodes_behind_equal_nodes_are_one() -> None:
    net = Net()
    net.data("table", 8, 4)
    x, places = net.input("x", (3, 4)), net.input("places", (3,), DType.I64)
    for layer in "ab":
        net.add(f"{layer}_cos", Gather(0), "table", places)
        net.add(f"{layer}_half", Activation("linear", 0.5), f"{layer}_cos")
    net.add("a", MUL, x, "a_half")
    net.add("b", MUL, "a", "b_half")
    program = run(net.program("b"), MergeEqualNodes())
    assert names(program) == ["a_cos", "a_half", "a", "b"]
    assert program["b"].inputs[1] is program["a_half"].output
    assert program["a_cos"].origin == ("a_cos", "b_cos")


def test_other_primitives_inputs_and_orders_stay() -> None:
    net = Net()
    x, y = net.input("x", (3,)), net.input("y", (3,))
    net.add("a", ADD, x, y)
    net.add("b", ADD, y, x)
    net.add("c", MUL, x, y)
    net.add("d", Activation("linear", 2.0), "a")
    net.add("e", Activation("linear", 3.0), "a")
    assert MergeEqualNodes().run(net.program("b", "c", "d", "e"), Context()) == 0


def test_outputs_of_the_graph_stay_two_values() -> None:
    net = Net()
    x = net.input("x", (3,))
    net.add("a", RELU, x)
    net.add("b", RELU, x)
    net.add("c", RELU, x)
    net.add("d", ADD, "c", x)
    program = run(net.program("a", "b", "d"), MergeEqualNodes())
    assert names(program) == ["a", "b", "d"]
    assert [v.name for _, v in program.outputs] == ["a", "b", "d"]


def test_nodes_of_different_annotations_stay_apart() -> None:
    net = Net()
    x = net.input("x", (3,))
    net.add("a", RELU, x, annotation="one")
    net.add("b", RELU, x)
    net.add("y", ADD, "a", "b")
    assert MergeEqualNodes().run(net.program("y"), Context()) == 0


@pytest.mark.parametrize("context", [Context(placement=(("b", "null"),)), Context(forced={"b": "activation.rows"})])
def test_what_the_user_names_stays(context) -> None:
    net = Net()
    x = net.input("x", (3,))
    net.add("y", ADD, net.add("a", RELU, x), net.add("b", RELU, x))
    assert MergeEqualNodes().run(net.program("y"), context) == 0


def test_what_updates_memory_does_so_each_time() -> None:
    net = Net()
    q, lengths = net.input("q", (1, 1, 1, 8)), net.input("lengths", (2,), DType.I32)
    state = net.input("state", (1,))
    for name in "ab":
        net.add(name, CachedAttention(0, 8), q, q, q, lengths, state)
    net.add("y", ADD, "a", "b")
    assert MergeEqualNodes().run(net.program("y"), Context()) == 0
