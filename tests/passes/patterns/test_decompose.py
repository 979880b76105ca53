from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.fill import Fill
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.reference import run_reference
from tests.support.programs import ADD, Net, lines, primitives, run


def _normalized(channels: int) -> Net:
    net = Net()
    x = net.input("x", (2, channels, 5, 3))
    statistics = [net.data(n, channels) for n in ("scale", "bias", "mean")]
    net.add("y", BatchNormalization(1e-3), x, *statistics, net.data("variance", channels, low=0.5), annotation="cpu")
    return net


def test_batch_normalization_becomes_a_product_and_a_sum_of_constants() -> None:
    program = run(_normalized(3).program("y"), Decompose())
    assert lines(program) == [
        'y/mul f32:bfyx:2x3x5x3 = eltwise(function=mul)(x, y/scale) "cpu"',
        'y f32:bfyx:2x3x5x3 = eltwise(function=add)(y/mul, y/shift) "cpu"',
    ]
    assert all(node.origin == ("y",) for node in program)


def test_its_constants_are_rounded_once() -> None:
    net = _normalized(300)
    scale, shift = (v.constant for v in run(net.program("y"), Decompose()).constants)
    c = {n: a.astype(np.float64) for n, a in net.constants.items()}
    exact = c["scale"] / np.sqrt(c["variance"] + 1e-3)
    np.testing.assert_array_equal(scale.ravel(), exact.astype(np.float32))
    np.testing.assert_array_equal(shift.ravel(), (c["bias"] - c["mean"] * exact).astype(np.float32))


def test_statistics_computed_at_run_time_stay() -> None:
    net = Net()
    x = net.input("x", (2, 3, 4, 4))
    net.add("y", BatchNormalization(), x, *(net.input(n, (3,)) for n in "abc"), net.data("v", 3, low=1))
    assert Decompose().run(net.program("y"), Context()) == 0


@pytest.mark.parametrize("function", ["add", "sub", "mul", "div", "pow"])
def test_an_operator_with_its_neutral_constant_vanishes(function: str) -> None:
    net = Net()
    c = net.number("c", 0.0 if function in ("add", "sub") else 1.0)
    h = net.add("h", Activation("relu"), net.input("x", (1, 4)))
    net.add("y", Activation("exp"), net.add("z", Eltwise(function), h, c))
    assert [str(p) for p in primitives(run(net.program("y"), Decompose()))] == [
        "activation(function=relu)",
        "activation(function=exp)",
    ]


def test_a_neutral_constant_that_widens_the_shape_stays() -> None:
    net = Net()
    net.constant("c", np.zeros((3, 4), np.float32))
    net.add("y", Eltwise("add"), net.input("x", (1, 4)), "c")
    assert len(run(net.program("y"), Decompose())) == 1


def test_a_conversion_to_the_same_type_vanishes_except_between_input_and_output() -> None:
    net = Net()
    x = net.input("x", (1, 4))
    net.add("y", Activation("relu"), net.add("cast", Reorder(DType.F32), x))
    net.add("z", Reorder(DType.F32), x)
    program = run(net.program("y", "z"), Decompose())
    assert [n.name for n in program] == ["y", "z"]


@pytest.mark.parametrize(
    ("function", "number", "slot", "expected"),
    [
        ("add", 3.0, 0, Activation("linear", 1.0, 3.0)),
        ("add", 3.0, 1, Activation("linear", 1.0, 3.0)),
        ("sub", 3.0, 0, Activation("linear", 1.0, -3.0)),
        ("sub", 3.0, 1, Activation("linear", -1.0, 3.0)),
        ("mul", 0.3, 1, Activation("linear", float(np.float32(0.3)), 0.0)),
        ("div", 4.0, 0, Activation("linear", 0.25, 0.0)),
        ("max", 0.0, 1, Activation("relu")),
        ("max", -1.0, 0, Activation("clip", -1.0, float("inf"))),
        ("min", 6.0, 0, Activation("clip", float("-inf"), 6.0)),
        ("pow", 2.0, 0, Activation("square")),
        ("pow", 0.5, 0, Activation("sqrt")),
    ],
)
def test_a_scalar_constant_makes_an_activation(function: str, number: float, slot: int, expected: Activation) -> None:
    net = Net()
    x, c = net.input("x", (2, 5)), net.number("c", number)
    net.add("y", Eltwise(function), *((x, c) if slot == 0 else (c, x)))
    assert primitives(run(net.program("y"), Decompose())) == [expected]


@pytest.mark.parametrize(("function", "number", "slot"), [("div", 6.0, 0), ("div", 2.0, 1), ("pow", 2.5, 0)])
def test_what_would_round_differently_stays(function: str, number: float, slot: int) -> None:
    net = Net()
    x, c = net.input("x", (2, 5)), net.number("c", number)
    net.add("y", Eltwise(function), *((x, c) if slot == 0 else (c, x)))
    assert primitives(run(net.program("y"), Decompose())) == [Eltwise(function)]


def test_a_cube_is_a_product_but_for_doubles() -> None:
    for dtype, expected in (
        (np.float32, [Activation("square"), Eltwise("mul")]),
        (np.float64, [Eltwise("pow")]),
    ):
        net = Net()
        net.add("y", Eltwise("pow"), net.input("x", (2, 5), dtype), net.constant("c", np.array(3, dtype)))
        assert primitives(run(net.program("y"), Decompose())) == expected


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint32])
def test_a_square_of_integers_is_a_product_that_wraps_around_alike(dtype) -> None:
    limits = np.iinfo(dtype)
    x = np.array([[limits.min, limits.max, 0, 1, limits.max // 2 + 1, 7]], dtype)
    net = Net()
    net.add("y", Eltwise("pow"), net.input("x", x.shape, dtype), net.constant("c", np.array(2, np.int32)))
    net.add("z", Eltwise("pow"), "x", net.constant("d", np.array(3, np.int32)))
    program = net.program("y", "z")
    want = run_reference(program, {"x": x})["y"]
    assert primitives(run(program, Decompose())) == [Eltwise("mul"), Eltwise("pow")]
    np.testing.assert_array_equal(run_reference(program, {"x": x})["y"], want)


def test_integers_are_left_alone() -> None:
    net = Net()
    x = net.input("x", (2, 5), np.int32)
    net.add("y", Eltwise("mul"), x, net.constant("c", np.array(3, np.int32)))
    assert primitives(run(net.program("y"), Decompose())) == [Eltwise("mul")]


def test_what_is_broadcast_is_the_second_input() -> None:
    net = Net()
    gate, x = net.input("gate", (1, 3, 1, 1)), net.input("x", (1, 3, 4, 4))
    net.add("y", Eltwise("mul"), gate, x)
    net.add("z", Eltwise("sub"), gate, x)
    program = run(net.program("y", "z"), Decompose())
    assert [v.name for v in program["y"].inputs] == ["x", "gate"]
    assert [v.name for v in program["z"].inputs] == ["gate", "x"]


def test_a_node_without_inputs_is_left_alone() -> None:
    net = Net()
    net.add("y", ADD, net.input("x", (80, 90)), net.add("filled", Fill(2.0, DType.F32, (80, 90))))
    assert primitives(run(net.program("y"), Decompose())) == [Fill(2.0, DType.F32, (80, 90)), ADD]
