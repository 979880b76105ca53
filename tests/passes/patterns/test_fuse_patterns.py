from __future__ import annotations

import math

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.fill import Fill
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.pad import Pad
from clgraph.ops.reduce import Reduce
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.patterns.fuse_patterns import FusePatterns
from tests.support.programs import ADD, MUL, RELU, Net, primitives, run

CLIP6 = Activation("clip", 0.0, 6.0)
DIV = Eltwise("div")


def _net() -> tuple[Net, str]:
    net = Net()
    return net, net.add("h", Activation("tanh"), net.input("x", (2, 6, 5)))


def _patterns(net: Net, output: str, *, decompose: bool = True) -> list[Activation]:
    passes = [Decompose(), FusePatterns()] if decompose else [FusePatterns()]
    return primitives(run(net.program(output), *passes))[1:]


def _paddle(net: Net, h: str) -> str:
    gate = net.add("gate", CLIP6, net.add("plus", ADD, h, net.number("three", 3.0)))
    return net.add("y", DIV, net.add("product", MUL, h, gate), net.number("six", 6.0))


def test_swish_is_x_times_its_sigmoid_in_either_order() -> None:
    for slots in ((0, 1), (1, 0)):
        net, h = _net()
        pair = (h, net.add("s", Activation("sigmoid"), h))
        y = net.add("y", MUL, pair[slots[0]], pair[slots[1]])
        assert _patterns(net, y) == [Activation("swish", 1.0)]


def test_swish_knows_a_factor_inside() -> None:
    net, h = _net()
    inner = net.add("i", MUL, h, net.number("c", 1.5))
    y = net.add("y", MUL, h, net.add("s", Activation("sigmoid"), inner))
    assert _patterns(net, y) == [Activation("swish", 1.5)]


@pytest.mark.parametrize("decompose", [True, False])
def test_hard_swish_as_paddle_exports_it(decompose: bool) -> None:
    net, h = _net()
    assert _patterns(net, _paddle(net, h), decompose=decompose) == [Activation("hard_swish", 1 / 6, 0.5)]


def test_hard_swish_of_a_divided_gate_and_of_hard_sigmoid() -> None:
    net, h = _net()
    gate = net.add("gate", CLIP6, net.add("plus", ADD, h, net.number("three", 3.0)))
    y = net.add("y", MUL, net.add("sixth", DIV, gate, net.number("six", 6.0)), h)
    assert _patterns(net, y) == [Activation("hard_swish", 1 / 6, 0.5)]
    net, h = _net()
    y = net.add("y", MUL, h, net.add("gate", Activation("hard_sigmoid", 0.2, 0.5), h))
    assert _patterns(net, y) == [Activation("hard_swish", 0.2, 0.5)]


def test_a_clip_of_integers_is_no_gate() -> None:
    net, clip = Net(), Activation("clip", 0.0, 1.0)
    y = net.add("y", clip, net.input("x", (2, 32), DType.I64))
    assert primitives(run(net.program(y), FusePatterns())) == [clip]


def test_another_divisor_than_the_clip_is_no_hard_swish() -> None:
    net, h = _net()
    gate = net.add("gate", CLIP6, net.add("plus", ADD, h, net.number("three", 3.0)))
    y = net.add("y", DIV, net.add("product", MUL, h, gate), net.number("five", 5.0))
    assert [p for p in _patterns(net, y) if p.kind == "activation" and p.function.startswith("hard")] == []


def test_a_gate_on_another_tensor_is_a_hard_sigmoid_alone() -> None:
    net, h = _net()
    other = net.add("other", Activation("exp"), h)
    gate = net.add("gate", CLIP6, net.add("plus", ADD, h, net.number("three", 3.0)))
    y = net.add("y", MUL, other, net.add("sixth", DIV, gate, net.number("six", 6.0)))
    assert set(_patterns(net, y)) == {Activation("exp"), Activation("hard_sigmoid", 1 / 6, 0.5), MUL}


def _gelu(net: Net, h: str, half_first: bool) -> str:
    erf = net.add("erf", Activation("erf"), net.add("scaled", DIV, h, net.number("root", math.sqrt(2))))
    one = net.add("one_plus", ADD, erf, net.number("one", 1.0))
    if half_first:
        return net.add("y", MUL, net.add("half_x", MUL, h, net.number("half", 0.5)), one)
    return net.add("y", MUL, net.add("product", MUL, h, one), net.number("half", 0.5))


@pytest.mark.parametrize("half_first", [True, False])
def test_gelu_by_erf(half_first: bool) -> None:
    net, h = _net()
    assert _patterns(net, _gelu(net, h, half_first)) == [Activation("gelu")]


@pytest.mark.parametrize("cube", ["pow", "products"])
def test_gelu_by_tanh(cube: str) -> None:
    net, h = _net()
    third = (
        net.add("cube", Eltwise("pow"), h, net.number("three", 3.0))
        if cube == "pow"
        else net.add("cube", MUL, net.add("sq", MUL, h, h), h)
    )
    inner = net.add("sum", ADD, h, net.add("small", MUL, third, net.number("k", 0.044715)))
    u = net.add("u", MUL, inner, net.number("r", math.sqrt(2 / math.pi)))
    one = net.add("one_plus", ADD, net.add("t", Activation("tanh"), u), net.number("one", 1.0))
    y = net.add("y", MUL, net.add("product", MUL, h, one), net.number("half", 0.5))
    assert _patterns(net, y) == [Activation("gelu_tanh")]


def test_gelu_with_another_constant_stays_as_it_is() -> None:
    net, h = _net()
    erf = net.add("erf", Activation("erf"), net.add("scaled", DIV, h, net.number("root", 1.5)))
    one = net.add("one_plus", ADD, erf, net.number("one", 1.0))
    y = net.add("y", MUL, net.add("product", MUL, h, one), net.number("half", 0.5))
    assert Activation("gelu") not in _patterns(net, y)


def test_a_pattern_stays_when_a_result_inside_is_read_elsewhere_and_the_note_says_by_whom() -> None:
    net, h = _net()
    y = _paddle(net, h)
    net.add("thief", RELU, "gate")
    program = run(net.program(y, "thief"), FusePatterns())
    assert len(program) == 6
    assert "y: no activation(function=hard_swish" in program.notes["fuse_patterns"]
    assert "gate is also read by thief" in program.notes["fuse_patterns"]


def test_a_pattern_stays_when_a_result_inside_is_an_output() -> None:
    net, h = _net()
    y = _paddle(net, h)
    program = run(net.program(y, "gate"), FusePatterns())
    assert "gate is an output of the graph" in program.notes["fuse_patterns"]


def test_a_pattern_of_two_annotations_stays_and_of_one_keeps_it() -> None:
    for second in ("cpu", "gpu", None):
        net, h = _net()
        gate = net.add("gate", Activation("sigmoid"), h, annotation="cpu")
        net.add("y", MUL, h, gate, annotation=second)
        program = run(net.program("y"), FusePatterns())
        assert len(program) == (3 if second == "gpu" else 2)
        if second != "gpu":
            assert program["gate"].annotation == "cpu"
            assert program["gate"].origin == ("gate", "y")


def _layer_norm(net: Net, h: str, *, affine: bool = True, reciprocal: bool = False) -> str:
    mean = net.add("mean", Reduce("mean", (2,)), h)
    centred = net.add("centred", Eltwise("sub"), h, mean)
    squared = net.add("squared", Eltwise("pow"), centred, net.number("two", 2.0))
    variance = net.add("variance", Reduce("mean", (2,)), squared)
    root = net.add("root", Activation("sqrt"), net.add("eps", ADD, variance, net.number("epsilon", 1e-3)))
    if reciprocal:
        y = net.add("normal", MUL, centred, net.add("inverse", Activation("reciprocal"), root))
    else:
        y = net.add("normal", DIV, centred, root)
    if affine:
        y = net.add("shifted", ADD, net.add("scaled", MUL, y, net.data("gamma", 5)), net.data("beta", 5))
    return y


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_layer_normalization(affine: bool, reciprocal: bool) -> None:
    net, h = _net()
    (found,) = _patterns(net, _layer_norm(net, h, affine=affine, reciprocal=reciprocal))
    assert found == LayerNormalization(2, float(np.float32(1e-3)))


def test_a_mean_over_other_axes_is_no_layer_normalization() -> None:
    net, h = _net()
    mean = net.add("mean", Reduce("mean", (1,)), h)
    centred = net.add("centred", Eltwise("sub"), h, mean)
    variance = net.add("variance", Reduce("mean", (2,)), net.add("sq", Activation("square"), centred))
    root = net.add("root", Activation("sqrt"), net.add("eps", ADD, variance, net.number("epsilon", 1e-3)))
    net.add("y", DIV, centred, root)
    found = [p for p in _patterns(net, "y") if isinstance(p, LayerNormalization)]
    assert found == [LayerNormalization(2, float(np.float32(1e-3)), centred=False)]  # of what the mean is taken off


def _root_mean_square(net: Net, h: str, squared: str, axis: int = 2) -> str:
    square = net.add("square", MUL, squared, squared)
    shifted = net.add("eps", ADD, net.add("mean", Reduce("mean", (axis,)), square), net.number("epsilon", 1e-3))
    return net.add("root", Activation("sqrt"), shifted)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_layer_normalization_without_a_mean(affine: bool, reciprocal: bool) -> None:
    net, h = _net()
    root = _root_mean_square(net, h, h)
    if reciprocal:
        y = net.add("normal", MUL, h, net.add("inverse", Activation("reciprocal"), root))
    else:
        y = net.add("normal", DIV, h, root)
    if affine:
        y = net.add("scaled", MUL, net.data("gamma", 5), y)
    y = net.add("more", ADD, y, net.data("beta", 5))
    assert _patterns(net, y) == [LayerNormalization(2, float(np.float32(1e-3)), centred=False), ADD]


@pytest.mark.parametrize(("other", "axis"), [(True, 2), (False, 1)])
def test_the_mean_square_of_another_value_or_over_other_axes_normalizes_nothing(other: bool, axis: int) -> None:
    net, h = _net()
    squared = net.add("other", Activation("exp"), h) if other else h
    net.add("y", DIV, h, _root_mean_square(net, h, squared, axis))
    assert LayerNormalization not in map(type, _patterns(net, "y"))


FILLED = Fill(0.5, DType.F32, (40, 60, 5))
"""Too large to be computed while shapes are bound, so that it is a node without inputs."""


def _large() -> tuple[Net, str]:
    net = Net()
    net.add("filled", FILLED)
    return net, net.add("h", Activation("tanh"), net.input("x", (40, 60, 5)))


@pytest.mark.parametrize("slot", [0, 1])
def test_a_product_with_a_node_without_inputs_is_no_gate(slot: int) -> None:
    net, h = _large()
    net.add("y", MUL, *(("filled", h) if slot else (h, "filled")))
    assert _patterns(net, "y")[-1] == MUL


@pytest.mark.parametrize("place", ["centred", "variance", "squared"])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_a_node_without_inputs_spells_no_layer_normalization(place: str, reciprocal: bool) -> None:
    net, h = _large()
    mean = net.add("mean", Reduce("mean", (2,)), h)
    centred = "filled" if place == "centred" else net.add("centred", Eltwise("sub"), h, mean)
    squared = "filled" if place == "squared" else net.add("squared", Activation("square"), h)
    variance = "filled" if place == "variance" else net.add("variance", Reduce("mean", (2,)), squared)
    root = net.add("root", Activation("sqrt"), net.add("eps", ADD, variance, net.number("epsilon", 1e-3)))
    if reciprocal:
        net.add("y", MUL, centred, net.add("inverse", Activation("reciprocal"), root))
    else:
        net.add("y", DIV, centred, root)
    assert LayerNormalization not in map(type, _patterns(net, "y"))


def test_zeros_around_a_convolution_become_its_pads() -> None:
    net = Net()
    x = net.input("x", (1, 3, 5, 6))
    net.conv("y", net.add("pad", Pad(((0, 0), (0, 0), (1, 2), (0, 3))), x), 3, 4, kernel=3)
    (found,) = primitives(run(net.program("y"), FusePatterns()))
    assert found == Convolution((1, 1), (1, 1), ((2, 3), (1, 4)))


@pytest.mark.parametrize(
    "pad", [Pad(((0, 0), (0, 1), (1, 1), (1, 1))), Pad(((0, 0), (0, 0), (1, 1), (1, 1)), value=1.0)]
)
def test_other_padding_stays(pad: Pad) -> None:
    net = Net()
    padded = net.add("pad", pad, net.input("x", (1, 3, 5, 6)))
    net.conv("y", padded, 3 + pad.pads[1][1], 4, kernel=3)
    assert len(primitives(run(net.program("y"), FusePatterns()))) == 2
