from __future__ import annotations

import random

import pytest

from clgraph.errors import ProgramError
from clgraph.graph.check import check
from clgraph.ops.concat import Concat
from clgraph.ops.transfer import Transfer
from clgraph.passes.base import Context
from clgraph.passes.placement.insert_transfers import InsertTransfers
from clgraph.passes.placement.partition import Partition
from clgraph.selector.query import DeviceInfo
from tests.support.programs import ADD, RELU, Net, names, run

A, B, C = DeviceInfo("a"), DeviceInfo("b"), DeviceInfo("c")


def _run(net: Net, *outputs: str, **where: str):
    rules = tuple((name, placement) for name, placement in where.items())
    context = Context(devices={d.name: d for d in (A, B, C)}, placement=rules)
    return run(net.program(*outputs), Partition(), InsertTransfers(), context=context)


def test_a_value_is_copied_once_for_each_device_that_reads_it() -> None:
    net = Net()
    h = net.add("h", RELU, net.input("x", (2, 8)))
    for name in ("p", "q", "r", "s"):
        net.add(name, RELU, h)
    program = _run(net, "p", "q", "r", "s", q="b", r="b", s="c")
    moved = [n for n in program if isinstance(n.primitive, Transfer)]
    assert [(n.primitive.source, n.placement) for n in moved] == [("a", "b"), ("a", "c")]
    assert program["q"].inputs == program["r"].inputs == (moved[0].output,)
    assert program["p"].inputs == (program["h"].output,)
    assert program.notes["insert_transfers"] == "2 transfers: a to b 64 bytes, a to c 64 bytes"
    assert InsertTransfers().run(program, Context(devices={"a": A})) == 0


def test_a_program_on_one_device_stays_as_it_is() -> None:
    net = Net()
    net.add("y", RELU, net.add("h", RELU, net.input("x", (2, 8))))
    before = str(net.program("y"))
    program = _run(net, "y")
    assert names(program) == ["h", "y"]
    assert "insert_transfers" not in program.notes
    assert before


def test_an_input_lives_with_its_first_reader_and_is_copied_before_anything_runs() -> None:
    net = Net()
    x = net.input("x", (2, 8))
    net.add("joined", Concat(1), net.add("left", RELU, x), net.add("right", RELU, x))
    program = _run(net, "joined", right="b")
    assert names(program) == ["right/transfer", "left", "right", "joined/transfer", "joined"]


def test_branches_on_two_devices_are_both_begun_before_one_is_waited_for() -> None:
    net = Net()
    x, z = net.input("x", (2, 8)), net.input("z", (2, 8))
    far = net.add("far2", RELU, net.add("far1", RELU, z))
    near = net.add("near2", RELU, net.add("near1", RELU, x))
    net.add("y", ADD, near, far)
    program = _run(net, "y", far1="b", far2="b")
    assert names(program) == ["far1", "far2", "near1", "near2", "y/transfer", "y"]


def test_what_another_device_waits_for_is_handed_over_before_the_own_work_goes_on() -> None:
    net = Net()
    stem = net.add("stem", RELU, net.input("x", (2, 8)))
    net.add("y", RELU, net.add("near", RELU, stem))
    net.add("z", RELU, stem)
    program = _run(net, "y", "z", z="b")
    assert names(program) == ["stem", "z/transfer", "near", "y", "z"]


def test_the_order_is_topological_on_random_graphs() -> None:
    for seed in range(200):
        pick = random.Random(seed)
        net = Net()
        made = [net.input(f"x{i}", (2, 4)) for i in range(2)]
        rules = {}
        for i in range(pick.randrange(2, 14)):
            name = f"n{i}"
            made.append(net.add(name, ADD, pick.choice(made), pick.choice(made)))
            rules[name] = pick.choice("abc")
        program = _run(net, made[-1], **rules)
        check(program)
        for node in program:
            for value in node.inputs:
                crosses = value.producer is not None and value.producer.placement != node.placement
                assert crosses == (isinstance(node.primitive, Transfer) and value.producer is not None)


def test_an_order_must_be_one() -> None:
    net = Net()
    net.add("y", RELU, net.add("h", RELU, net.input("x", (2, 8))))
    program = net.program("y")
    nodes = list(program)
    with pytest.raises(ProgramError, match="y stands before h"):
        program.reorder(nodes[::-1])
    with pytest.raises(ProgramError, match="every node once"):
        program.reorder(nodes[:1])
