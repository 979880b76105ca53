from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.fusing.absorb_channel_shuffles import AbsorbChannelShuffles
from clgraph.passes.fusing.merge_groups import MergeGroups
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from clgraph.passes.reference import random_feeds, run_reference
from tests.support.programs import RELU, Net, grouped, lines, run


def shuffle(net: Net, x: str, groups: int, channels: int, side: int = 6, **more) -> str:
    split = net.add("split", Reshape((1, groups, channels // groups, side, side)), x, **more)
    return net.add("joined", Reshape((1, channels, side, side)), net.add("turned", Transpose((0, 2, 1, 3, 4)), split))


def fused(net: Net, *outputs: str):
    return run(net.program(*outputs), AbsorbChannelShuffles(), MergeGroups(), PreparePrimitiveFusing())


@pytest.fixture(autouse=True)
def fakes():
    """What is merged depends on costs: these tests run on the real implementations."""
    return


def notes(program) -> str:
    return program.notes.get("absorb_channel_shuffles", "")


def test_the_text_before_and_after() -> None:
    net = Net()
    program = net.program(shuffle(net, grouped(net, "conv", net.input("x", (1, 24, 6, 6)), 24, 24, 1), 4, 24))
    pads = "strides=1x1, dilations=1x1, pads=((0, 0), (0, 0))"
    assert lines(program) == [
        f"conv f32:bfyx:1x24x6x6 = convolution({pads})(x, conv_w, conv_b)",
        "split f32:bfzyx:1x4x6x6x6 = reshape(shape=1x4x6x6x6)(conv)",
        "turned f32:bfzyx:1x6x4x6x6 = transpose(axes=0x2x1x3x4)(split)",
        "joined f32:bfyx:1x24x6x6 = reshape(shape=1x24x6x6)(turned)",
    ]
    (line,) = lines(run(program, AbsorbChannelShuffles()))
    assert line == f"joined f32:bfyx:1x24x6x6 = convolution({pads})(x, conv/weights, conv/bias) @null"


@pytest.mark.parametrize("merged", [False, True])
def test_without_merge_groups_the_groups_in_front_of_a_shuffle_are_merged_for_it(merged: bool) -> None:
    net = Net()
    conv = grouped(net, "conv", net.input("x", (1, 24, 6, 6)), 24, 40, 4)
    passes = (AbsorbChannelShuffles(), MergeGroups()) if merged else (AbsorbChannelShuffles(),)
    (node,) = run(net.program(shuffle(net, conv, 4, 40)), *passes)
    assert (node.primitive.groups, node.primitive.bands, node.primitive.apart) == (1, 1, True)


@pytest.mark.parametrize("groups", [1, 4])
def test_a_channel_shuffle_becomes_the_order_of_output_channels(groups) -> None:
    net = Net()
    x = net.input("x", (1, 24, 6, 6))
    conv = grouped(net, "conv", x, 24, 40, groups)
    net.add("tanh", Activation("tanh"), shuffle(net, net.add("relu", RELU, conv), 4, 40))
    program = fused(net, "tanh")
    (node,) = program
    assert [f.primitive.function for f in node.fused] == ["relu", "tanh"]
    assert node.primitive.bands == 1
    order = np.arange(40).reshape(4, 10).T.ravel()
    np.testing.assert_array_equal(node.inputs[2].constant, net.constants["conv_b"][order])
    assert "split, turned, joined: into the order of the output channels of conv" in notes(program)


@pytest.mark.parametrize("groups", [(4, 4, 4), (2, 4, 8), (4, 2, 3)])
@pytest.mark.parametrize("depthwise", [0, 1, 2])
def test_a_channel_shuffle_becomes_the_order_in_which_the_next_groups_read(groups, depthwise) -> None:
    net = Net()
    first, ranges, last = groups
    x = grouped(net, "first", net.input("x", (1, 96, 6, 6)), 96, 264, first)
    x = shuffle(net, net.add("relu", RELU, x), ranges, 264)
    for i in range(depthwise):
        x = net.add(f"tanh{i}", Activation("tanh"), grouped(net, f"depthwise{i}", x, 264, 264, 264, 3))
    before = net.program(grouped(net, "last", x, 264, 48, last))
    feeds = random_feeds(before)
    wanted = run_reference(before, feeds)["last"]
    program = run(before, AbsorbChannelShuffles(), MergeGroups(), PreparePrimitiveFusing())
    assert [n.name for n in program] == ["first", *(f"depthwise{i}" for i in range(depthwise)), "last"]
    made = list(program)[-1].primitive
    assert (made.groups, made.bands, made.shuffled) == (1, last, ranges)
    assert "split, turned, joined: into the order in which last reads its channels" in notes(program)
    # Sums of at most 264 products, in another order.
    np.testing.assert_allclose(run_reference(program, feeds)["last"], wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("what", ["read twice", "another annotation", "moving weights", "not by channel"])
def test_a_shuffle_stays_in_front_of_groups_that_cannot_read_in_its_order(what) -> None:
    net = Net()
    other = what == "another annotation"
    conv = grouped(net, "first", net.input("x", (1, 96, 6, 6)), 96, 136, 4)
    x = shuffle(net, conv, 4, 136, **({"annotation": "a"} if other else {}))
    if what == "not by channel":
        x = net.add("sum", Eltwise("add"), x, net.data("row", 6))
    p = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)), 4)
    w = net.input("w", (48, 34, 1, 1)) if what == "moving weights" else net.data("w", 48, 34, 1, 1)
    last = net.add("last", p, x, w, **({"annotation": "b"} if other else {}))
    second = [net.add("tanh", Activation("tanh"), x)] if what == "read twice" else []
    program = fused(net, last, *second)
    assert all(getattr(n.primitive, "shuffled", 1) == 1 for n in program)


def test_a_shuffle_at_the_end_gives_the_output_its_name() -> None:
    net = Net()
    joined = shuffle(net, grouped(net, "conv", net.input("x", (1, 24, 6, 6)), 24, 24, 3), 3, 24)
    program = fused(net, joined)
    assert [n.primitive.kind for n in program] == ["convolution"]
    assert [(name, v.name) for name, v in program.outputs] == [("joined", "joined")]


@pytest.mark.parametrize("what", ["read elsewhere", "other axes", "other shape", "something else between"])
def test_what_is_no_plain_shuffle_stays(what) -> None:
    net = Net()
    conv = grouped(net, "conv", net.input("x", (1, 24, 6, 6)), 24, 24, 1)
    if what == "something else between":
        conv = net.add("sum", Eltwise("add"), conv, net.data("c", 1, 24, 6, 6))
    split = net.add("split", Reshape((1, 6, 4, 6, 6) if what != "other shape" else (1, 6, 24, 2, 3)), conv)
    axes = (0, 2, 1, 4, 3) if what == "other axes" else (0, 2, 1, 3, 4)
    net.add("joined", Reshape((1, 24, 6, 6)), net.add("turned", Transpose(axes), split))
    program = fused(net, "joined", *(["turned"] if what == "read elsewhere" else []))
    assert [n.primitive.kind for n in program] == ["convolution", "reshape", "transpose", "reshape"]


def test_different_annotations_keep_the_shuffle() -> None:
    net = Net()
    conv = grouped(net, "conv", net.input("x", (1, 24, 6, 6)), 24, 24, 1, annotation="a")
    split = net.add("split", Reshape((1, 6, 4, 6, 6)), conv, annotation="b")
    net.add("joined", Reshape((1, 24, 6, 6)), net.add("turned", Transpose((0, 2, 1, 3, 4)), split))
    assert len(fused(net, "joined")) == 4
