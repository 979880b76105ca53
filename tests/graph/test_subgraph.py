from __future__ import annotations

import pytest

from clgraph.errors import ProgramError
from clgraph.graph.buffer import Buffer
from clgraph.graph.check import check
from clgraph.graph.dot import print_dot
from clgraph.graph.outline import outline
from clgraph.graph.program import Milestone, Program
from clgraph.graph.subgraph import cut
from clgraph.ops.softmax import Softmax
from clgraph.ops.transfer import Transfer
from clgraph.passes.placement.insert_transfers import InsertTransfers
from clgraph.selector.choose import Choice, HostReference
from clgraph.selector.query import DeviceInfo, query_of
from tests.support.programs import ADD, RELU, Net


def _program(**where: str) -> Program:
    net = Net()
    x = net.input("x", (2, 8))
    h = net.add("h", RELU, x)
    net.add("y", ADD, net.add("g", Softmax((1,)), h), h)
    program = net.program("y", "h")
    for node in program:
        node.placement = where.get(node.name, "a")
    return program


def _planned(program: Program) -> Program:
    """Give every value memory of its own, on the device of the node that makes it, and every node a choice."""
    for value in program.values:
        placement = value.producer.placement if value.producer is not None else "a"
        value.buffer = Buffer(value.name, value.layout.nbytes, offset=0, placement=placement or "")
    for node in program:
        node.choice = Choice(query_of(node, DeviceInfo()), HostReference, 0.0, "test")
    program.milestone = Milestone.PLANNED
    return program


def _parts(program: Program):
    return cut(list(program), {v for _, v in program.outputs})


def test_nodes_of_one_device_that_follow_each_other_are_one_part_and_ids_are_unique() -> None:
    parts = _parts(_program(g="b"))
    assert [(p.id, p.placement, [n.name for n in p.nodes]) for p in parts] == [
        ("0@a", "a", ["h"]),
        ("1@b", "b", ["g"]),
        ("2@a", "a", ["y"]),
    ]
    assert [p.id for p in _parts(_program())] == ["0@a"]
    assert cut([], ()) == ()


def test_inputs_and_outputs_are_what_crosses_the_border_and_what_the_caller_gives_and_reads() -> None:
    def names(program: Program):
        return [([v.name for v in p.inputs], [v.name for v in p.outputs]) for p in _parts(program)]

    assert names(_program(g="b")) == [(["x"], ["h"]), (["h"], ["g"]), (["g", "h"], ["y"])]
    assert names(_program()) == [(["x"], ["h", "y"])]


def test_attributes_of_equal_names_are_told_apart_by_their_nodes() -> None:
    program = _program()
    program.fuse(program["y"], program["g"])
    (whole,) = _parts(program)
    names = [name for name in whole.attributes if name.endswith(".function")]
    assert names == ["h.function", "g.fused0.function"]
    assert whole.attributes["g.axes"] == (1,)


def test_a_transfer_in_the_middle_begins_a_part_and_those_that_follow_it_are_of_the_same() -> None:
    net = Net()
    x = net.input("x", (2, 8))
    far = [net.add(f"far{i}", RELU, x) for i in range(3)]
    near = net.add("near", RELU, net.input("z", (2, 8)))
    first = net.add("first", ADD, near, far[0])
    net.add("last", ADD, net.add("second", ADD, first, far[1]), far[2])
    program = net.program("last")
    for node in program:
        node.placement = "b" if node.name.startswith("far") else "a"
    InsertTransfers().run(program, None)  # type: ignore[arg-type]  # it looks at the program alone
    carried = {n.inputs[0].name: n for n in program if isinstance(n.primitive, Transfer)}
    order = [*(program[f"far{i}"] for i in range(3)), program["near"], carried["far0"], program["first"]]
    program.reorder([*order, carried["far1"], carried["far2"], program["second"], program["last"]])
    assert [[n.name for n in p.nodes] for p in _parts(program)] == [
        ["far0", "far1", "far2"],
        ["near"],
        [carried["far0"].name, "first"],
        [carried["far1"].name, carried["far2"].name, "second", "last"],
    ]


def test_a_planned_program_has_its_subgraphs_made_once_and_one_that_is_not_planned_has_none() -> None:
    program = _program(g="b")
    assert program.subgraphs == ()
    found = _planned(program).subgraphs
    assert [s.id for s in found] == ["0@a", "1@b", "2@a"]
    assert program.subgraphs is found


def test_a_program_that_changes_after_it_was_planned_is_not_what_its_subgraphs_say() -> None:
    program = _planned(_program(g="b"))
    check(program)
    program["g"].placement = "a"
    with pytest.raises(ProgramError, match="subgraphs 0@a, 1@b, 2@a do not hold the program's nodes"):
        check(program)


def test_dumps_show_the_subgraphs_where_there_are_several() -> None:
    program = _planned(_program(g="b"))
    lines = str(program).splitlines()
    assert [line for line in lines if line.startswith("  subgraph")] == [
        f"  subgraph {i}" for i in ("0@a", "1@b", "2@a")
    ]
    assert lines[lines.index("  subgraph 1@b") + 1].startswith("  g f32")
    assert '  subgraph cluster_1 { label="1@b"; n1; }' in print_dot(program).splitlines()
    assert outline(program)["subgraphs"][1] == {
        "id": "1@b",
        "placement": "b",
        "nodes": ["g"],
        "inputs": ["h"],
        "outputs": ["g"],
    }
    whole = _planned(_program())
    assert "subgraph" not in str(whole) + print_dot(whole)
    assert [s["nodes"] for s in outline(whole)["subgraphs"]] == [["h", "g", "y"]]
