from __future__ import annotations

from clgraph.graph.subgraph import subgraphs
from clgraph.ops.softmax import Softmax
from tests.support.programs import ADD, RELU, Net


def _program(**where: str):
    net = Net()
    x = net.input("x", (2, 8))
    h = net.add("h", RELU, x)
    net.add("y", ADD, net.add("g", Softmax((1,)), h), h)
    program = net.program("y", "h")
    for node in program:
        node.placement = where.get(node.name, "a")
    return program


def test_nodes_of_one_device_that_follow_each_other_are_one_part_and_ids_are_unique() -> None:
    parts = subgraphs(_program(g="b"))
    assert [(p.id, p.placement, p.nodes) for p in parts] == [
        ("0@a", "a", ("h",)),
        ("1@b", "b", ("g",)),
        ("2@a", "a", ("y",)),
    ]


def test_inputs_and_outputs_are_what_crosses_the_border_and_what_the_caller_gives_and_reads() -> None:
    parts = subgraphs(_program(g="b"))
    assert [(p.inputs, p.outputs) for p in parts] == [(("x",), ("h",)), (("h",), ("g",)), (("g", "h"), ("y",))]
    (whole,) = subgraphs(_program())
    assert (whole.inputs, whole.outputs) == (("x",), ("h", "y"))


def test_attributes_of_equal_names_are_told_apart_by_their_nodes() -> None:
    program = _program()
    program.fuse(program["y"], program["g"])
    (whole,) = subgraphs(program)
    names = [name for name in whole.attributes if name.endswith(".function")]
    assert names == ["h.function", "g.fused0.function"]
    assert whole.attributes["g.axes"] == (1,)
