from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.convolution import Convolution
from clgraph.passes.fusing.convolution_groups import spread_weights
from clgraph.passes.fusing.merge_groups import MergeGroups
from tests.support.programs import Net, grouped, lines, run
from tests.support.rewritten import rewritten


def fused(net: Net, *outputs: str):
    return run(net.program(*outputs), MergeGroups())


@pytest.fixture(autouse=True)
def fakes():
    """What is merged depends on costs: these tests run on the real implementations."""
    return


def notes(program) -> str:
    return program.notes.get("merge_groups", "")


@pytest.mark.parametrize(
    ("channels", "out", "groups"),
    [(24, 24, 3), (64, 128, 8), (48, 48, 6), (40, 40, 5), (64, 64, 16), (80, 40, 10), (136, 136, 4), (256, 256, 64)],
)
def test_groups_become_one_with_bands_or_fewer_of_whole_blocks(channels, out, groups) -> None:
    net = Net()
    grouped(net, "conv", net.input("x", (1, channels, 6, 6)), channels, out, groups)
    program = fused(net, "conv")
    (node,) = program
    left = node.primitive.groups
    assert node.name == "conv"
    assert left < groups
    assert left == 1 or (channels // left % 16, out // left % 16) == (0, 0)
    assert node.primitive.bands == (groups if left == 1 else 1)
    weights, own = node.inputs[1].constant, net.constants["conv_w"]
    assert weights.shape == (out, channels // left, 1, 1)
    assert np.count_nonzero(weights) == np.count_nonzero(own)
    assert node.primitive.apart
    assert np.count_nonzero(np.signbit(weights) & (weights == 0)) == weights.size - own.size
    assert f"conv: {groups} groups become {left}, of whole blocks" in notes(program)


def test_the_text_before_and_after() -> None:
    net = Net()
    grouped(net, "conv", net.input("x", (1, 24, 6, 6)), 24, 24, 3)
    program = net.program("conv")
    pads = "strides=1x1, dilations=1x1, pads=((0, 0), (0, 0))"
    assert lines(program) == [f"conv f32:bfyx:1x24x6x6 = convolution({pads}, groups=3)(x, conv_w, conv_b)"]
    (line,) = lines(run(program, MergeGroups()))
    assert line == f"conv f32:bfyx:1x24x6x6 = convolution({pads}, apart=True, bands=3)(x, conv/weights, conv_b) @null"


def test_groups_of_whole_blocks_stay() -> None:
    net = Net()
    grouped(net, "conv", net.input("x", (1, 64, 6, 6)), 64, 128, 4)
    (node,) = fused(net, "conv")
    assert (node.primitive.groups, node.primitive.bands) == (4, 1)


def test_each_channel_alone_stays_alone() -> None:
    net = Net()
    grouped(net, "conv", net.input("x", (1, 24, 6, 6)), 24, 24, 24, kernel=3)
    (node,) = fused(net, "conv")
    assert node.primitive.groups == 24


@pytest.mark.parametrize(("channels", "out", "groups"), [(24, 24, 3), (64, 128, 8), (40, 40, 5)])
def test_weights_that_a_run_computes_are_spread_in_it(channels, out, groups) -> None:
    net = Net()
    p = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), groups)
    net.add("conv", p, net.input("x", (1, channels, 6, 6)), net.input("w", (out, channels // groups, 3, 3)))
    program = rewritten(net, "conv", by=MergeGroups())
    made = next(n for n in program if n.name == "conv")
    left = made.primitive.groups
    assert left < groups
    own = np.random.default_rng(0).choice([-0.0, 1.0, -2.0], (out, channels // groups, 3, 3)).astype(np.float32)
    values = {value: own for value in program.inputs if value.name == "w"}
    for node in (n for n in program if n is not made):
        read = [values[v] if v.constant is None else v.constant for v in node.inputs]
        values.update(zip(node.outputs, node.reference(*read), strict=True))
    spread = values[made.inputs[1]]
    expected = spread_weights(own, groups, groups // left, 1)
    assert (spread.view(np.int32) == expected.view(np.int32)).all()


def test_a_zero_of_a_group_is_there_whatever_its_sign() -> None:
    own = np.full((24, 8, 1, 1), -0.0, np.float32)
    weights = spread_weights(own, 3, 3, 1)
    assert not np.signbit(weights[:8, :8]).any()
    assert np.signbit(weights[:8, 8:]).all()
