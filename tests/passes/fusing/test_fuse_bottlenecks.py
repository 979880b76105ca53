"""A depthwise convolution takes over the 1x1 convolutions around it where one node is faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.bottleneck import Bottleneck
from clgraph.ops.convolution import Convolution
from clgraph.passes.base import Context
from clgraph.passes.fusing.fuse_bottlenecks import FuseBottlenecks
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from clgraph.passes.placement.remove_layering_annotations import RemoveLayeringAnnotations
from clgraph.selector.query import DeviceInfo
from tests.support.programs import ADD, MUL, RELU, Net, lines, names, run

RELU6 = Activation("clip", 0.0, 6.0)


@pytest.fixture(autouse=True)
def fakes():
    """What is taken over depends on costs: these tests run on the real implementations."""
    return


def _block(side: int = 112, channels: int = 16, hidden: int = 96, *, stride=2, gate: bool = False, **middle) -> Net:
    net = Net()
    net.conv("expand", net.input("x", (1, channels, side, side)), channels, hidden)
    net.add("expanded", RELU6, "expand")
    depthwise = Convolution((stride, stride), (1, 1), ((1, 1), (1, 1)), hidden)
    net.add("depthwise", depthwise, "expanded", net.data("dw", hidden, 1, 3, 3), net.data("db", hidden), **middle)
    net.add("filtered", RELU6, "depthwise")
    if gate:
        net.add("gated", MUL, "filtered", net.input("g", (1, hidden, 1, 1)))
    net.conv("project", "gated" if gate else "filtered", hidden, 24)
    return net


def _notes(program) -> str:
    return program.notes["fuse_bottlenecks"]


def test_the_three_convolutions_become_one_node_with_what_stands_between() -> None:
    net = _block()
    net.add("y", ADD, "project", net.input("r", (1, 24, 56, 56)))
    program = run(net.program("y"), FuseBottlenecks(), PreparePrimitiveFusing())
    (node,) = program
    assert node.name == "depthwise"
    assert isinstance(node.primitive, Bottleneck)
    assert (node.primitive.expanded, node.primitive.filtered) == ((RELU6,), (RELU6,))
    assert [f.primitive for f in node.fused] == [ADD]
    np.testing.assert_array_equal(node.inputs[2].constant, np.zeros(96, np.float32))
    assert "expand, expanded, depthwise, filtered, project: a bottleneck" in _notes(program)


def test_the_text_before_and_after() -> None:
    net = Net()
    depthwise = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 64)
    net.add("depthwise", depthwise, net.input("x", (1, 64, 112, 112)), net.data("dw", 64, 1, 3, 3), net.data("db", 64))
    net.add("project", Convolution(), net.add("filtered", RELU, "depthwise"), net.data("w", 32, 64, 1, 1))
    program = net.program("project")
    assert [line.partition(" = ")[2].partition("(")[0] for line in lines(program)] == [
        "convolution",
        "activation",
        "convolution",
    ]
    (line,) = lines(run(program, FuseBottlenecks()))
    assert line.startswith("project f32:bfyx:1x32x112x112 = bottleneck(")
    assert line.endswith("(x, dw, db, w, project/bias) @null")


def test_a_gate_between_leaves_the_projection_out() -> None:
    program = run(_block(gate=True).program("project"), FuseBottlenecks(), PreparePrimitiveFusing())
    assert names(program) == ["depthwise", "project"]
    first = program["depthwise"].primitive
    assert isinstance(first, Bottleneck)
    assert (first.expands, first.projects, first.filtered) == (True, False, ())


def test_without_an_expansion_the_projection_is_taken_over() -> None:
    net = Net()
    depthwise = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 64)
    net.add("depthwise", depthwise, net.input("x", (1, 64, 112, 112)), net.data("dw", 64, 1, 3, 3))
    net.add("filtered", RELU, "depthwise")
    net.conv("project", "filtered", 64, 32)
    (node,) = run(net.program("project"), FuseBottlenecks(), PreparePrimitiveFusing())
    assert isinstance(node.primitive, Bottleneck)
    assert (node.primitive.expands, node.primitive.projects) == (False, True)


def test_several_activations_in_a_row_come_along() -> None:
    net = Net()
    depthwise = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 64)
    net.add("depthwise", depthwise, net.input("x", (1, 64, 112, 112)), net.data("dw", 64, 1, 3, 3))
    net.add("doubled", Activation("linear", 2.0, 0.5), net.add("filtered", RELU, "depthwise"))
    net.conv("project", "doubled", 64, 32)
    (node,) = run(net.program("project"), FuseBottlenecks(), PreparePrimitiveFusing())
    assert node.primitive.filtered == (RELU, Activation("linear", 2.0, 0.5))


def test_small_maps_stay_as_they_are_with_the_estimates_as_the_reason() -> None:
    net = _block(7, 160, 960, stride=1)
    program = run(net.program("project"), FuseBottlenecks(), PreparePrimitiveFusing())
    assert names(program) == ["expand", "depthwise", "project"]
    assert "expand, expanded, depthwise, filtered, project: no bottleneck: it would take" in _notes(program)


@pytest.mark.parametrize("read", ["expand", "expanded", "depthwise", "filtered"])
def test_what_is_read_elsewhere_is_not_taken_over(read) -> None:
    program = run(_block().program("project", read), FuseBottlenecks(), PreparePrimitiveFusing())
    made = {v.name for n in program for v in n.outputs}
    assert read in made
    assert f"{read} is an output of the graph" in _notes(program)


def test_different_annotations_keep_the_convolutions_apart_until_they_are_retired() -> None:
    for passes in ((), (RemoveLayeringAnnotations(),)):
        net = _block(annotation="b")
        net.add("y", RELU, "project", annotation="a")
        program = net.program("y")
        for node in program:
            node.annotation = node.annotation or "a"
        run(program, *passes, FuseBottlenecks(), PreparePrimitiveFusing())
        assert any(isinstance(n.primitive, Bottleneck) for n in program) == bool(passes)
        assert ("a and b differ" in _notes(program)) == (not passes)


def test_a_denied_implementation_and_a_forced_kernel_keep_the_convolutions_apart() -> None:
    for context, reason in (
        (Context(denied=frozenset({"bottleneck.fsv16"})), "no implementation on"),
        (Context(forced={"depthwise": "convolution.ref"}), "a kernel is forced on depthwise"),
    ):
        program = run(_block().program("project"), FuseBottlenecks(), PreparePrimitiveFusing(), context=context)
        assert names(program) == ["expand", "depthwise", "project"]
        assert reason in _notes(program)


def test_devices_without_tiles_keep_the_convolutions_apart() -> None:
    gpu = DeviceInfo(name="null", kind="gpu", simd=1)
    program = run(
        _block().program("project"), FuseBottlenecks(), PreparePrimitiveFusing(), context=Context(devices={"null": gpu})
    )
    assert not any(isinstance(n.primitive, Bottleneck) for n in program)


@pytest.mark.parametrize("change", [{"groups": 48}, {"strides": (2,), "rank": 1}])
def test_other_grouped_convolutions_are_left_alone(change) -> None:
    net = Net()
    if "rank" in change:
        net.add("conv", Convolution((2,), (1,), ((1, 1),), 96), net.input("x", (1, 96, 200)), net.data("w", 96, 1, 3))
        program = run(net.program("conv"), FuseBottlenecks(), PreparePrimitiveFusing())
    else:
        depthwise = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 96)
        depthwise = replace(depthwise, **change)
        net.conv("expand", net.input("x", (1, 16, 56, 56)), 16, 96)
        net.add("conv", depthwise, "expand", net.data("w", 96, 2, 3, 3))
        program = run(net.program("conv"), FuseBottlenecks(), PreparePrimitiveFusing())
    assert not any(isinstance(n.primitive, Bottleneck) for n in program)
