from __future__ import annotations

import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import channels_last, feature_blocked
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context
from clgraph.passes.formats.remove_redundant_reorders import RemoveRedundantReorders
from clgraph.selector.implementation import IMPLEMENTATIONS
from tests.support.programs import RELU, Net, kinds, run

BLOCKED, LAST = Reorder(DType.F32, feature_blocked(4)), Reorder(DType.F32, channels_last(4))
PLAIN = Reorder(DType.F32)


@pytest.fixture
def rigid():
    """Elementwise work in plain formats alone, so that the reorders around it are needed."""

    def plain(cls, q):
        return None if all(x.format.is_plain for x in (*q.inputs, *q.outputs)) else "plain formats alone"

    IMPLEMENTATIONS["activation.any"].limits = classmethod(plain)
    return Net()


def test_a_reorder_to_the_layout_there_is_vanishes(rigid: Net) -> None:
    net = rigid
    net.add("y", RELU, net.add("r", PLAIN, net.add("h", RELU, net.input("x", (1, 16, 4, 4)))))
    assert kinds(run(net.program("y"), RemoveRedundantReorders())) == ["activation", "activation"]


def test_a_chain_shrinks_to_nothing_or_to_one(rigid: Net) -> None:
    net = rigid
    x = net.input("x", (1, 16, 4, 4))
    there = net.add("there", BLOCKED, net.add("h", RELU, x))
    net.add("y", RELU, net.add("back", PLAIN, net.add("on", LAST, there)))
    assert kinds(run(net.program("y"), RemoveRedundantReorders())) == ["activation", "activation"]


def test_a_chain_over_another_element_type_stays(rigid: Net) -> None:
    net = rigid
    x = net.input("x", (1, 16, 4, 4))
    net.add("y", RELU, net.add("wide", PLAIN, net.add("whole", Reorder(DType.I32), net.add("h", RELU, x))))
    assert kinds(run(net.program("y"), RemoveRedundantReorders())).count("reorder") == 2


@pytest.mark.parametrize("annotations", [("null", "null"), ("null", "other")])
def test_siblings_merge_unless_their_annotations_differ(rigid: Net, annotations: tuple[str, str]) -> None:
    net = rigid
    h = net.add("h", RELU, net.input("x", (1, 16, 4, 4)))
    first, second = (net.add(f"r{i}", BLOCKED, h, annotation=a) for i, a in enumerate(annotations))
    net.conv("a", first, 16, 16)
    net.conv("b", second, 16, 16)
    only_blocked = Context(denied=frozenset({"convolution.slow"}))
    program = run(net.program("a", "b"), RemoveRedundantReorders(), context=only_blocked)
    assert kinds(program).count("reorder") == len(set(annotations))


def test_a_producer_that_can_writes_the_layout_itself() -> None:
    net = Net()

    def crossing(cls, q):
        return None  # any format in, any other out

    IMPLEMENTATIONS["activation.any"].limits = classmethod(crossing)
    h = net.conv("a", net.input("x", (1, 16, 4, 4)), 16, 16)
    net.conv("b", net.add("r", BLOCKED, net.add("e", RELU, h)), 16, 16)
    only_blocked = Context(denied=frozenset({"convolution.slow"}))
    program = run(net.program("b"), RemoveRedundantReorders(), context=only_blocked)
    assert kinds(program) == ["convolution", "activation", "convolution"]
    assert str(program["e"].output.layout) == "f32:b_fs_yx_fsv16:1x16x4x4"


def test_readers_that_can_read_the_input_as_it_is() -> None:
    net = Net()
    h = net.conv("a", net.input("x", (1, 16, 4, 4)), 16, 16)
    there = net.add("r", BLOCKED, h)
    net.add("y", RELU, there)
    net.add("z", RELU, there)
    program = run(net.program("y", "z"), RemoveRedundantReorders())
    assert kinds(program) == ["convolution", "activation", "activation"]


def test_a_reorder_between_input_and_output_stays() -> None:
    net = Net()
    net.add("y", PLAIN, net.input("x", (1, 16, 4, 4)))
    assert len(run(net.program("y"), RemoveRedundantReorders())) == 1


def test_running_it_again_changes_nothing(rigid: Net) -> None:
    net = rigid
    h = net.add("there", BLOCKED, net.add("h", RELU, net.input("x", (1, 16, 4, 4))))
    net.conv("y", h, 16, 16)
    program = run(net.program("y"), RemoveRedundantReorders())
    assert RemoveRedundantReorders().run(program, Context()) == 0
