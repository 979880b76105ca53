from __future__ import annotations

import pytest

from clgraph.ops.softmax import Softmax
from clgraph.passes.base import Context
from clgraph.passes.formats.reorder_inputs import ReorderInputs
from clgraph.passes.placement.partition import Partition
from tests.support.programs import ADD, RELU, Net, kinds, lines, run

BLOCKED = "b_fs_yx_fsv16"


def _formats(program) -> dict[str, str]:
    return {n.output.name: str(n.output.layout.format) for n in program}


def test_a_chain_of_convolutions_is_blocked_between_two_reorders() -> None:
    net = Net()
    h = net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 32, kernel=3)
    net.conv("b", net.add("relu", RELU, h), 32, 32)
    program = run(net.program("b"), ReorderInputs())
    assert kinds(program) == ["reorder", "convolution", "activation", "convolution", "reorder"]
    assert list(_formats(program).values()) == [BLOCKED] * 4 + ["bfyx"]
    assert program.outputs[0][1].layout.is_dense_plain
    assert "reorders: 2, writing" in program.notes["reorder_inputs"]
    assert "ms estimated on all workers (exact)" in program.notes["reorder_inputs"]


def test_one_small_convolution_is_not_worth_its_reorders() -> None:
    net = Net()
    net.conv("a", net.add("soft", Softmax((1,)), net.input("x", (1, 1, 40, 40))), 1, 1)
    assert kinds(run(net.program("a"), ReorderInputs())) == ["softmax", "convolution"]


def test_readers_that_want_the_same_share_one_reorder() -> None:
    net = Net()
    h = net.add("soft", Softmax((1,)), net.input("x", (1, 16, 12, 12)))
    a, b = net.conv("a", h, 16, 16), net.conv("b", h, 16, 16, kernel=3)
    net.add("sum", ADD, a, b)
    net.add("last", Softmax((1,)), h)
    program = run(net.program("sum", "last"), ReorderInputs())
    reorders = [n for n in program if n.primitive.kind == "reorder"]
    assert [str(r.output.layout.format) for r in reorders] == [BLOCKED, "bfyx"]
    assert len(list(reorders[0].output.uses)) == 2
    assert str(program["last"].inputs[0].layout.format) == "bfyx"


def test_a_residual_block_stays_blocked_all_through() -> None:
    net = Net()
    h = net.conv("stem", net.input("x", (1, 16, 12, 12)), 16, 16)
    for i in range(4):
        h = net.add(f"sum{i}", ADD, net.conv(f"b{i}", net.conv(f"a{i}", h, 16, 16, kernel=3), 16, 16), h)
    program = run(net.program(h), ReorderInputs())
    assert kinds(program).count("reorder") == 2


def test_a_concat_of_whole_blocks_costs_nothing_in_blocks_and_of_others_is_plain() -> None:
    for channels in (16, 12):
        net = Net()
        x = net.input("x", (1, 16, 12, 12))
        joined = net.concat("joined", net.conv("a", x, 16, channels), net.conv("b", x, 16, 16))
        net.conv("y", joined, channels + 16, 16)
        formats = _formats(run(net.program("y"), ReorderInputs()))
        assert formats["joined"] == (BLOCKED if channels == 16 else "bfyx")


def test_weights_keep_their_format() -> None:
    net = Net()
    net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 32)
    program = run(net.program("a"), ReorderInputs())
    assert all(v.layout.format.is_plain for v in program.constants)


def test_the_inserted_reorder_inherits_from_its_reader() -> None:
    net = Net()
    net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 32, annotation="null")
    program = run(net.program("a"), ReorderInputs())
    first = next(iter(program))
    assert (first.annotation, first.placement, first.origin) == ("null", "null", ("a",))


def test_a_denied_implementation_is_not_planned_with() -> None:
    net = Net()
    net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 32)
    context = Context(denied=frozenset({"convolution.blocked"}))
    program = run(net.program("a"), ReorderInputs(), context=context)
    assert [line.split()[1] for line in lines(program)] == ["f32:bfyx:1x32x12x12"]


@pytest.mark.parametrize("count", [1, 3])
def test_the_estimate_is_that_of_the_choices_and_reorders(count: int) -> None:
    net = Net()
    h = net.input("x", (1, 16, 12, 12))
    for i in range(count):
        h = net.conv(f"c{i}", h, 16, 16)
    program = net.program(h)
    context = Context()
    Partition().run(program, context)
    ReorderInputs().run(program, context)
    seconds = sum(context.choose(n).seconds for n in program)
    assert program.notes["reorder_inputs"].startswith(f"{seconds * 1e3:.3g} ms")
