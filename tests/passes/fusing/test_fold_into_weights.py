from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.passes.fusing import weight_scaling
from clgraph.passes.fusing.fold_into_weights import FoldIntoWeights
from tests.support.programs import ADD, MUL, RELU, Net, lines, run


def _fused(net: Net, *outputs: str):
    return run(net.program(*outputs), FoldIntoWeights())


def test_the_text_before_and_after() -> None:
    net = Net()
    scaled = net.add("scaled", MUL, net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5), net.data("s", 5, 1, 1))
    program = net.program(net.add("shifted", ADD, scaled, net.data("b", 5, 1, 1)))
    conv = "convolution(strides=1x1, dilations=1x1, pads=((0, 0), (0, 0)))"
    assert lines(program) == [
        f"conv f32:bfyx:1x5x6x6 = {conv}(x, conv_w)",
        "scaled f32:bfyx:1x5x6x6 = eltwise(function=mul)(conv, s)",
        "shifted f32:bfyx:1x5x6x6 = eltwise(function=add)(scaled, b)",
    ]
    (line,) = lines(run(program, FoldIntoWeights()))
    assert line == f"shifted f32:bfyx:1x5x6x6 = {conv}(x, conv/weights, conv/bias) @null"


def test_an_activation_between_and_a_moving_operand_are_not_folded() -> None:
    net = Net()
    relu = net.add("relu", RELU, net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5))
    scaled = net.add("scaled", MUL, relu, net.data("s", 5, 1, 1))
    gated = net.add("gated", MUL, net.conv("next", scaled, 5, 5), net.input("g", (1, 5, 1, 1)))
    program = net.program(gated)
    before = lines(program)
    assert lines(run(program, FoldIntoWeights())) == [f"{line} @null" for line in before]
    assert FoldIntoWeights.name not in program.notes


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
    assert "scaled, shifted, less: into the weights and bias of conv" in program.notes["fold_into_weights"]


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


def test_weights_shared_with_another_convolution_are_not_changed_for_it() -> None:
    net = Net()
    x = net.input("x", (1, 3, 6, 6))
    net.conv("a", x, 3, 5)
    net.add("b", net.layers[0].primitive, x, "a_w")
    net.add("y", MUL, "a", net.data("s", 5, 1, 1))
    program = _fused(net, "y", "b")
    np.testing.assert_array_equal(program["b"].inputs[1].constant, net.constants["a_w"])


def test_a_shift_in_front_of_a_scale_is_scaled_with_it() -> None:
    net = Net()
    conv = net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5)
    shifted = net.add("shifted", ADD, conv, net.data("b", 5, 1, 1))
    net.add("y", Activation("linear", 2.0, 1.0), net.add("scaled", MUL, shifted, net.data("s", 5, 1, 1)))
    (node,) = _fused(net, "y")
    c = {n: a.astype(np.float64).ravel() for n, a in net.constants.items()}
    np.testing.assert_array_equal(node.inputs[2].constant, (c["b"] * c["s"] * 2 + 1).astype(np.float32))


def test_weights_in_a_mapped_file_are_let_go_once_they_are_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[int] = []
    monkeypatch.setattr(weight_scaling, "release", lambda array: released.append(id(array)))
    net = Net()
    net.add("scaled", MUL, net.conv("conv", net.input("x", (1, 3, 6, 6)), 3, 5), net.data("s", 5, 1, 1))
    _fused(net, "scaled")
    assert released == [id(net.constants["conv_w"])]
