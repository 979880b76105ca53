from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reduce import Reduce
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.passes.fusing.prepare_primitive_fusing import MOST_FUSED, PreparePrimitiveFusing
from clgraph.passes.placement.remove_layering_annotations import RemoveLayeringAnnotations
from clgraph.selector.implementation import IMPLEMENTATIONS
from tests.support.programs import ADD, MUL, RELU, Net, run

SWISH = Activation("swish", 1.0)


def _fused(net: Net, *outputs: str):
    return run(net.program(*outputs), PreparePrimitiveFusing())


def _shape(program) -> dict[str, list[str]]:
    """Return what is fused into each node, by name."""
    return {n.name: [f"{f.where} {f.primitive}" for f in n.fused] for n in program}


def test_constants_a_channel_become_weights_and_bias_rounded_once() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5, kernel=3)
    scaled = net.add("scaled", MUL, conv, net.data("s", 5, 1, 1))
    shifted = net.add("shifted", ADD, scaled, net.data("b", 1, 5, 1, 1))
    net.add("less", Eltwise("sub"), shifted, net.data("c", 5, 1, 1))
    program = _fused(net, "less")
    (node,) = program
    c = {n: a.astype(np.float64) for n, a in net.constants.items()}
    s = c["s"].ravel()
    expected = (c["conv_w"] * s[:, None, None, None]).astype(np.float32)
    np.testing.assert_array_equal(node.inputs[1].constant, expected)
    np.testing.assert_array_equal(node.inputs[2].constant, (c["b"].ravel() - c["c"].ravel()).astype(np.float32))
    assert (node.name, node.output.name) == ("conv", "less")
    assert node.origin == ("conv", "scaled", "shifted", "less")
    assert "scaled, shifted, less: into the weights and bias of conv" in program.notes["prepare_primitive_fusing"]


@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_matrix_product_takes_constants_of_its_columns(transpose_b: bool) -> None:
    net = Net()
    w = net.data("w", *((6, 4) if transpose_b else (4, 6)))
    y = net.add("y", MatMul(False, transpose_b), net.input("x", (3, 4)), w)
    net.add("z", ADD, net.add("s", MUL, y, net.data("c", 6)), net.data("d", 1, 6))
    program = _fused(net, "z")
    assert len(program) == 1
    assert program["y"].arity == 3


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (6,), (1, 6)])
def test_so_does_one_with_a_bias_of_any_rank(shape: tuple[int, ...]) -> None:
    net = Net()
    y = net.add("y", MatMul(), net.input("x", (3, 4)), net.data("w", 4, 6), net.data("b", *shape))
    net.add("z", MUL, y, net.data("c", 6))
    assert len(_fused(net, "z")) == 1


def test_a_bias_a_row_stays_as_it_is() -> None:
    net = Net()
    y = net.add("y", MatMul(), net.input("x", (3, 4)), net.data("w", 4, 6), net.data("b", 3, 1))
    net.add("z", MUL, y, net.data("c", 6))
    assert _fused(net, "z")["y"].arity == 3


def test_a_constant_that_varies_along_the_image_is_fused_behind() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5)
    net.add("y", MUL, conv, net.data("s", 6, 6))
    assert _shape(_fused(net, "y")) == {"conv": ["post eltwise(function=mul)"]}


def test_weights_shared_with_another_convolution_are_not_changed_for_it() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    net.conv("a", x, 3, 5)
    net.add("b", net.layers[0].primitive, x, "a_w")
    net.add("y", MUL, "a", net.data("s", 5, 1, 1))
    program = _fused(net, "y", "b")
    np.testing.assert_array_equal(program["b"].inputs[1].constant, net.constants["a_w"])


def test_a_chain_of_activations_and_sums_follows_its_convolution() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    first = net.conv("first", x, 3, 5)
    second = net.conv("second", net.add("relu", RELU, first), 5, 5)
    net.add("out", SWISH, net.add("sum", ADD, second, "relu"))
    program = _fused(net, "out")
    assert _shape(program) == {
        "first": ["post activation(function=relu)"],
        "second": ["post eltwise(function=add)", "post activation(function=swish, alpha=1)"],
    }
    assert program["second"].inputs[2] is program["first"].output


def test_of_two_producers_the_later_one_takes_the_sum() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    net.add("sum", ADD, net.conv("late", x, 3, 5), net.conv("early", x, 3, 5))
    program = _fused(net, "sum")
    assert _shape(program) == {"late": [], "early": ["post eltwise(function=add)"]}
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
    assert _shape(program)["conv"] == []
    note = program.notes["prepare_primitive_fusing"]
    assert "sum: not behind conv: conv is also read by p0" in note
    assert "sum: not behind p29: p29 is an output of the graph" in note


def test_a_sum_of_a_result_and_itself_is_not_fused_behind_it() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 3)
    net.add("sum", ADD, conv, conv)
    program = _fused(net, "sum")
    assert _shape(program) == {"conv": [], "sum": []}
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
    assert _shape(program)["conv"] == []
    wanted = "conv is an output of the graph" if reason == "output" else "conv is also read by other"
    assert f"relu: not behind conv: {wanted}" in program.notes["prepare_primitive_fusing"]


def test_an_operand_that_widens_the_result_is_refused() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 1, 1)), 3, 5)
    net.add("y", ADD, conv, net.data("c", 1, 5, 4, 4))
    program = _fused(net, "y")
    assert _shape(program) == {"conv": [], "y": []}
    assert "is not yet the full result" in program.notes["prepare_primitive_fusing"]


def test_a_small_gate_multiplies_the_large_tensor_not_the_reverse() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    large = net.conv("large", x, 3, 5)
    gate = net.conv("gate", net.add("mean", Reduce("mean", (2, 3)), x), 3, 5)
    net.add("y", MUL, large, gate)
    program = run(net.program("y"), PreparePrimitiveFusing())
    assert _shape(program) == {"mean": [], "gate": [], "large": ["post eltwise(function=mul)"]}


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


def test_scale_shift_and_activation_behind_a_concat_go_in_front_of_the_convolution() -> None:
    net = Net()
    x = net.input("x", (1, 16, 6, 6))
    joined = net.concat("joined", x, net.conv("a", x, 16, 16))
    scaled = net.add("scaled", MUL, joined, net.data("s", 32, 1, 1))
    shifted = net.add("shifted", ADD, scaled, net.data("b", 32, 1, 1))
    net.conv("y", net.add("relu", RELU, shifted), 32, 8)
    net.add("second", RELU, joined)
    program = _fused(net, "y", "second")
    assert _shape(program)["y"] == [
        "pre eltwise(function=mul)",
        "pre eltwise(function=add)",
        "pre activation(function=relu)",
    ]


def test_what_no_implementation_serves_stays() -> None:
    saved = IMPLEMENTATIONS["softmax.slow"].serves
    IMPLEMENTATIONS["softmax.slow"].serves = type(saved)(dtypes=saved.dtypes)
    net = Net()
    net.add("y", RELU, net.add("soft", Softmax((1,)), net.input("x", (1, 9))))
    program = _fused(net, "y")
    assert len(program) == 2
    assert "no implementation of softmax on null serves it" in program.notes["prepare_primitive_fusing"]


@pytest.mark.parametrize("first", ["tensor", "gate"])
def test_a_gate_computed_at_run_time_may_go_in_front_whichever_operand_it_is(first: str) -> None:
    net = Net()
    x = net.input("x", (1, 16, 6, 6))
    h = net.add("h", Softmax((1,)), x)
    gate = net.conv("gate", net.add("mean", Reduce("mean", (2, 3)), h), 16, 16)
    net.conv("y", net.add("gated", Eltwise("sub"), *((h, gate) if first == "tensor" else (gate, h))), 16, 8)
    program = _fused(net, "y")
    assert _shape(program)["y"] == ["pre eltwise(function=sub)"]
    assert program["y"].fused[0].slot == (0 if first == "tensor" else 1)
    assert program["y"].inputs[0] is program["h"].output
    assert program["y"].inputs[2] is program["gate"].output


def test_what_several_nodes_read_stays_and_says_so() -> None:
    net = Net()
    x = net.input("x", (1, 16, 6, 6))
    joined = net.concat("joined", *(net.conv(c, x, 16, 16) for c in "ab"))
    scaled = net.add("scaled", MUL, joined, net.data("s", 6))
    net.conv("y", scaled, 32, 8)
    net.conv("z", scaled, 32, 8)
    program = _fused(net, "y", "z")
    assert "scaled" in _shape(program)
    notes = program.notes["prepare_primitive_fusing"]
    assert "scaled: in front of nothing: 2 nodes read its result" in notes
    assert "scaled: not behind joined: the parts of joined can lie in one buffer, and it runs nothing then" in notes


def test_a_factor_of_an_operand_follows_the_matrix_product() -> None:
    net = Net()
    factor = net.add("factor", Activation("linear", 0.25), net.input("a", (2, 3, 4)))
    net.add("y", MatMul(), factor, net.add("other", Activation("linear", 0.5), net.input("b", (2, 4, 5))))
    program = _fused(net, "y")
    assert len(program) == 1
    assert sorted(_shape(program)["y"]) == [
        "post activation(function=linear, alpha=0.25)",
        "post activation(function=linear, alpha=0.5)",
    ]


@pytest.mark.parametrize("case", ["shift", "reader"])
def test_a_shift_or_a_factor_that_is_read_elsewhere_stays_in_front(case: str) -> None:
    net = Net()
    factor = net.add("factor", Activation("linear", 0.25, float(case == "shift")), net.input("a", (2, 3, 4)))
    net.add("y", MatMul(), factor, net.input("b", (2, 4, 5)))
    net.add("z", RELU, factor if case == "reader" else "b")
    assert "post" not in str(_shape(_fused(net, "y", "z"))["y"])


def test_a_shift_in_front_of_a_scale_is_scaled_with_it() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5)
    shifted = net.add("shifted", ADD, conv, net.data("b", 5, 1, 1))
    net.add("y", Activation("linear", 2.0, 1.0), net.add("scaled", MUL, shifted, net.data("s", 5, 1, 1)))
    (node,) = _fused(net, "y")
    c = {n: a.astype(np.float64).ravel() for n, a in net.constants.items()}
    np.testing.assert_array_equal(node.inputs[2].constant, (c["b"] * c["s"] * 2 + 1).astype(np.float32))
