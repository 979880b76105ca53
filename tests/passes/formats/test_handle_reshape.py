from __future__ import annotations

from clgraph.ops.reshape import Reshape
from clgraph.passes.formats.handle_reshape import HandleReshape
from tests.support.programs import RELU, Net, lines, run


def test_two_in_a_row_are_one_and_one_to_the_same_shape_is_none() -> None:
    net = Net()
    h = net.add("h", RELU, net.input("x", (2, 3, 4)))
    net.add("y", RELU, net.add("b", Reshape((2, 12)), net.add("a", Reshape((6, 4)), h)))
    net.add("z", RELU, net.add("d", Reshape((2, 3, 4)), net.add("c", Reshape((24,)), h)))
    program = run(net.program("y", "z"), HandleReshape())
    assert [line.partition(" @")[0] for line in lines(program)] == [
        "h f32:bfx:2x3x4 = activation(function=relu)(x)",
        "b f32:bf:2x12 = reshape(shape=2x12)(h)",
        "y f32:bf:2x12 = activation(function=relu)(b)",
        "z f32:bfx:2x3x4 = activation(function=relu)(h)",
    ]


def test_the_first_stays_for_another_reader_and_for_an_output() -> None:
    net = Net()
    a = net.add("a", Reshape((6, 4)), net.input("x", (2, 3, 4)))
    net.add("b", Reshape((2, 12)), a)
    program = run(net.program("a", "b"), HandleReshape())
    assert [n.inputs[0].name for n in program] == ["x", "x"]


def test_different_annotations_stay_apart() -> None:
    net = Net()
    a = net.add("a", Reshape((6, 4)), net.input("x", (2, 3, 4)), annotation="one")
    net.add("b", Reshape((2, 12)), a, annotation="two")
    assert HandleReshape().run(net.program("b"), None) == 0
