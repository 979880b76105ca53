from __future__ import annotations

import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.passes.fusing.gain import MOST_FUSED
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from clgraph.passes.placement.remove_layering_annotations import RemoveLayeringAnnotations
from clgraph.selector.implementation import IMPLEMENTATIONS
from tests.support.programs import ADD, MUL, RELU, Net, fused_into, run

SWISH = Activation("swish", 1.0)


def _fused(net: Net, *outputs: str):
    return run(net.program(*outputs), PreparePrimitiveFusing())


def test_a_constant_that_varies_along_the_image_is_fused_behind() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5)
    net.add("y", MUL, conv, net.data("s", 6, 6))
    assert fused_into(_fused(net, "y")) == {"conv": ["post eltwise(function=mul)"]}


def test_a_chain_of_activations_and_sums_follows_its_convolution() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    first = net.conv("first", x, 3, 5)
    second = net.conv("second", net.add("relu", RELU, first), 5, 5)
    net.add("out", SWISH, net.add("sum", ADD, second, "relu"))
    program = _fused(net, "out")
    assert fused_into(program) == {
        "first": ["post activation(function=relu)"],
        "second": ["post eltwise(function=add)", "post activation(function=swish, alpha=1)"],
    }
    assert program["second"].inputs[2] is program["first"].output


def test_of_two_producers_the_later_one_takes_the_sum() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    net.add("sum", ADD, net.conv("late", x, 3, 5), net.conv("early", x, 3, 5))
    program = _fused(net, "sum")
    assert fused_into(program) == {"late": [], "early": ["post eltwise(function=add)"]}
    assert program["early"].fused[0].slot == 1


def test_a_subtraction_remembers_which_input_it_is() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    net.add("y", Eltwise("sub"), net.add("e", Activation("exp"), x), net.conv("conv", x, 3, 3))
    assert _fused(net, "y")["conv"].fused[0].slot == 1


def test_what_would_close_a_cycle_over_a_long_path_is_refused_in_words() -> None:
    net = Net()
    far = conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 3)
    for i in range(30):
        far = net.add(f"p{i}", Split(1, (3,)), far, outputs=(f"p{i}",))
    net.add("sum", ADD, conv, far)
    program = _fused(net, "sum", "p29")
    assert fused_into(program)["conv"] == []
    note = program.notes["prepare_primitive_fusing"]
    assert "sum: not behind conv: conv is also read by p0" in note
    assert "sum: not behind p29: p29 is an output of the graph" in note


def test_a_sum_of_a_result_and_itself_is_not_fused_behind_it() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 3)
    net.add("sum", ADD, conv, conv)
    program = _fused(net, "sum")
    assert fused_into(program) == {"conv": [], "sum": []}
    assert "sum reads conv twice" in program.notes["prepare_primitive_fusing"]


def test_a_long_chain_becomes_nodes_of_a_bounded_number_of_operations() -> None:
    net = Net()
    h = net.input("x", (1, 3, 6, 6))
    for i in range(3 * (MOST_FUSED + 1)):
        h = net.add(f"n{i}", RELU, h)
    program = _fused(net, h)
    assert [len(node.fused) for node in program] == [MOST_FUSED] * 3
    assert f"{MOST_FUSED + 1} fused operations, of at most {MOST_FUSED}" in program.notes["prepare_primitive_fusing"]


@pytest.mark.parametrize("reason", ["output", "reader"])
def test_a_result_that_is_read_elsewhere_is_not_fused_away(reason: str) -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5)
    net.add("relu", RELU, conv)
    if reason == "reader":
        net.conv("other", conv, 5, 5)
    program = _fused(net, "relu", "conv" if reason == "output" else "other")
    assert fused_into(program)["conv"] == []
    wanted = "conv is an output of the graph" if reason == "output" else "conv is also read by other"
    assert f"relu: not behind conv: {wanted}" in program.notes["prepare_primitive_fusing"]


def test_an_operand_that_widens_the_result_is_refused() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 1, 1)), 3, 5)
    net.add("y", ADD, conv, net.data("c", 1, 5, 4, 4))
    program = _fused(net, "y")
    assert fused_into(program) == {"conv": [], "y": []}
    assert "is not yet the full result" in program.notes["prepare_primitive_fusing"]


def test_a_small_gate_multiplies_the_large_tensor_not_the_reverse() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    large = net.conv("large", x, 3, 5)
    gate = net.conv("gate", net.add("mean", Reduce("mean", (2, 3)), x), 3, 5)
    net.add("y", MUL, large, gate)
    program = run(net.program("y"), PreparePrimitiveFusing())
    assert fused_into(program) == {"mean": [], "gate": [], "large": ["post eltwise(function=mul)"]}


def test_annotations_bind_until_they_are_retired() -> None:
    for retire in (False, True):
        net = Net()
        net.add("y", RELU, net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5, annotation="null"))
        passes = [RemoveLayeringAnnotations()] if retire else []
        program = run(net.program("y"), *passes, PreparePrimitiveFusing())
        (node,) = program
        assert (node.annotation, node.partitioned_by) == ((None, "null") if retire else ("null", None))
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5, annotation="a")
    net.add("y", RELU, conv, annotation="b")
    program = _fused(net, "y")
    assert "the annotations a and b differ" in program.notes["prepare_primitive_fusing"]
    (node,) = run(net.program("y"), RemoveLayeringAnnotations(), PreparePrimitiveFusing())
    assert (node.annotation, node.partitioned_by) == (None, "a, b")


def test_what_no_implementation_serves_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = IMPLEMENTATIONS["softmax.slow"]
    monkeypatch.setattr(slow, "serves", type(slow.serves)(dtypes=slow.serves.dtypes))
    net = Net()
    net.add("y", RELU, net.add("soft", Softmax((1,)), net.input("x", (1, 9))))
    program = _fused(net, "y")
    assert len(program) == 2
    assert "no implementation of softmax on null serves it" in program.notes["prepare_primitive_fusing"]
