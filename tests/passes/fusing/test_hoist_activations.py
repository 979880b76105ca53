from __future__ import annotations

import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.pooling import Pooling
from clgraph.passes.fusing.hoist_activations import HoistActivations
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from tests.support.programs import RELU, Net, lines, names, run


@pytest.fixture(autouse=True)
def fakes():
    """What takes an activation is asked of the real implementations."""
    return


def _joined(net: Net) -> str:
    x = net.input("x", (1, 16, 8, 8))
    pooled = net.add("pool", Pooling("average", (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1))), x)
    return net.concat("joined", net.conv("conv", x, 16, 24), pooled)


def test_an_activation_moves_to_each_input() -> None:
    net = Net()
    net.add("relu", RELU, net.concat("joined", *(net.conv(c, net.input(f"x{c}", (1, 16, 8, 8)), 16, 16) for c in "ab")))
    program = net.program("relu")
    pads = "strides=1x1, dilations=1x1, pads=((0, 0), (0, 0))"
    assert lines(program) == [
        f"a f32:bfyx:1x16x8x8 = convolution({pads})(xa, a_w)",
        f"b f32:bfyx:1x16x8x8 = convolution({pads})(xb, b_w)",
        "joined f32:bfyx:1x32x8x8 = concat(axis=1)(a, b)",
        "relu f32:bfyx:1x32x8x8 = activation(function=relu)(joined)",
    ]
    assert lines(run(program, HoistActivations())) == [
        f"a f32:bfyx:1x16x8x8 = convolution({pads})(xa, a_w) @null",
        f"b f32:bfyx:1x16x8x8 = convolution({pads})(xb, b_w) @null",
        "relu/activation f32:bfyx:1x16x8x8 = activation(function=relu)(a) @null",
        "relu/activation_2 f32:bfyx:1x16x8x8 = activation(function=relu)(b) @null",
        "relu f32:bfyx:1x32x8x8 = concat(axis=1)(relu/activation, relu/activation_2) @null",
    ]


def test_activations_behind_a_concat_end_in_what_makes_its_inputs() -> None:
    net = Net()
    net.add("tanh", Activation("tanh"), net.add("relu", RELU, _joined(net)))
    program = run(net.program("tanh"), HoistActivations(), PreparePrimitiveFusing())
    assert sorted(names(program)) == ["conv", "joined", "pool"]
    for name in ("conv", "pool"):
        assert [f.primitive.function for f in program[name].fused] == ["relu", "tanh"]
    assert [name for name, _ in program.outputs] == ["tanh"]
    assert "relu: in front of joined, on each of its inputs" in program.notes["hoist_activations"]


@pytest.mark.parametrize("read", ["conv", "pool", "joined", "x"])
def test_an_input_that_is_read_elsewhere_keeps_its_values(read: str) -> None:
    net = Net()
    joined = _joined(net)
    whole = net.concat("outer", "x", joined) if read == "x" else joined
    net.add("relu", RELU, whole)
    program = run(net.program("relu", *([] if read == "x" else [read])), HoistActivations(), PreparePrimitiveFusing())
    assert not program["conv"].fused
    assert not program["pool"].fused


def test_different_annotations_keep_the_activation() -> None:
    net = Net()
    x = net.input("x", (1, 16, 8, 8))
    joined = net.concat("joined", *(net.conv(c, x, 16, 16, annotation=c) for c in ("a", "b")))
    net.add("relu", RELU, joined, annotation="c")
    program = run(net.program("relu"), HoistActivations(), PreparePrimitiveFusing())
    assert "relu" in names(program)
    assert "differ" in program.notes["hoist_activations"]
