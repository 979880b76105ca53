from __future__ import annotations

import pytest

from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.ops.softmax import Softmax
from clgraph.passes.fusing.fuse_pre_operations import FusePreOperations
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from tests.support.programs import ADD, MUL, RELU, Net, fused_into, lines, run


def _fused(net: Net, *outputs: str):
    return run(net.program(*outputs), PreparePrimitiveFusing(), FusePreOperations())


def test_the_text_before_and_after() -> None:
    net = Net()
    scaled = net.add("scaled", MUL, net.input("x", (1, 16, 6, 6)), net.data("s", 16, 1, 1))
    program = net.program(net.conv("y", net.add("relu", RELU, scaled), 16, 8))
    conv = "convolution(strides=1x1, dilations=1x1, pads=((0, 0), (0, 0)))"
    assert lines(program) == [
        "scaled f32:bfyx:1x16x6x6 = eltwise(function=mul)(x, s)",
        "relu f32:bfyx:1x16x6x6 = activation(function=relu)(scaled)",
        f"y f32:bfyx:1x8x6x6 = {conv}(relu, y_w)",
    ]
    (line,) = lines(run(program, FusePreOperations()))
    fused = "< eltwise(function=mul)(_, s) < activation(function=relu)"
    assert line == f"y f32:bfyx:1x8x6x6 = {conv}(x, y_w) {fused} @null"
    assert program.notes["fuse_pre_operations"] == "relu: in front of y\nscaled: in front of y"


def test_what_is_not_read_first_and_an_output_are_refused_in_words() -> None:
    net = Net()
    x = net.input("x", (1, 16, 6, 6))
    net.add("conv", Convolution(), x, net.add("operand", RELU, net.input("w", (8, 16, 1, 1))))
    net.conv("z", net.add("out", RELU, x), 16, 8)
    notes = _fused(net, "conv", "z", "out").notes["fuse_pre_operations"]
    assert "operand: not in front of conv: it is not what that reads first" in notes
    assert "out: not in front of z: out is an output of the graph" in notes


def test_scale_shift_and_activation_behind_a_concat_go_in_front_of_the_convolution() -> None:
    net = Net()
    x = net.input("x", (1, 16, 6, 6))
    joined = net.concat("joined", x, net.conv("a", x, 16, 16))
    scaled = net.add("scaled", MUL, joined, net.data("s", 32, 1, 1))
    shifted = net.add("shifted", ADD, scaled, net.data("b", 32, 1, 1))
    net.conv("y", net.add("relu", RELU, shifted), 32, 8)
    net.add("second", RELU, joined)
    program = _fused(net, "y", "second")
    assert fused_into(program)["y"] == [
        "pre eltwise(function=mul)",
        "pre eltwise(function=add)",
        "pre activation(function=relu)",
    ]


@pytest.mark.parametrize("first", ["tensor", "gate"])
def test_a_gate_computed_at_run_time_may_go_in_front_whichever_operand_it_is(first: str) -> None:
    net = Net()
    x = net.input("x", (1, 16, 6, 6))
    h = net.add("h", Softmax((1,)), x)
    gate = net.conv("gate", net.add("mean", Reduce("mean", (2, 3)), h), 16, 16)
    net.conv("y", net.add("gated", Eltwise("sub"), *((h, gate) if first == "tensor" else (gate, h))), 16, 8)
    program = _fused(net, "y")
    assert fused_into(program)["y"] == ["pre eltwise(function=sub)"]
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
    assert "scaled" in fused_into(program)
    assert program.notes["fuse_pre_operations"] == "scaled: in front of nothing: 2 nodes read its result"
    behind = "scaled: not behind joined: the parts of joined can lie in one buffer, and it runs nothing then"
    assert behind in program.notes["prepare_primitive_fusing"]


def test_what_a_resize_would_compute_again_and_again_stays_in_front_of_it() -> None:
    net = Net()
    relu = net.add("relu", RELU, net.concat("joined", *(net.input(name, (1, 16, 6, 6)) for name in "ab")))
    net.add("again", RELU, "joined")
    net.add("y", Resize(shape=(1, 32, 12, 12), scales=(1.0, 1.0, 2.0, 2.0)), relu)
    notes = _fused(net, "y", "again").notes["fuse_pre_operations"]
    assert f"relu: not in front of y: it would be computed for each of {32 * 144} elements, not of {32 * 36}" in notes
