"""Pixels that become channels in front of a convolution: what ``decompose`` makes of them; the results stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.slice import Slice
from clgraph.ops.space import Shuffle
from clgraph.passes.patterns.decompose import Decompose
from tests.support.programs import RELU, Net, lines, primitives, run
from tests.support.rewritten import rewritten

PHASES = ((0, 0), (1, 0), (0, 1), (1, 1))
"""The Focus layer's order: first down, then to the right."""


def part(net: Net, x: str, name: str, row: int, column: int, block: int = 2, end: int = 99, **more) -> str:
    """Add the slices of one pixel of each block, an axis each."""
    rows = Slice((row,), (end,), (block,), (2,))
    tall = net.add(f"{name}_rows", rows, x, **more)
    return net.add(name, replace(rows, starts=(column,), axes=(3,)), tall, **more)


def focus(
    shape=(1, 3, 6, 8), order=PHASES, block: int = 2, kernel: int = 3, stride: int = 1, end: int = 99, **more
) -> Net:
    """Return a net of such slices, their concat, and a convolution with bias and pads."""
    net = Net()
    x = net.input("x", shape)
    parts = [part(net, x, f"part{i}", *place, block, end) for i, place in enumerate(order)]
    channels = shape[1] * len(order) // more.get("groups", 1)
    w, bias = net.data("w", 6, channels, kernel, kernel), net.data("b", 6)
    p = Convolution((stride, stride), (1, 1), ((1, 0), (1, 1)))
    net.add("y", replace(p, **more), net.concat("focus", *parts), w, bias)
    return net


def kinds_of(net: Net, *outputs: str) -> list[type]:
    """Return the kinds that *net* becomes, after seeing that its results in float64 stay as they are."""
    return [type(p) for p in primitives(rewritten(net, "y", *outputs, by=Decompose()))]


def test_the_text_before_and_after() -> None:
    net = Net()
    x = net.input("x", (1, 2, 4, 4))
    parts = [net.add(f"s{i}", Slice((0, 0, *place), (1, 2, 4, 4), (1, 1, 2, 2)), x) for i, place in enumerate(PHASES)]
    program = net.program(net.conv("y", net.concat("focus", *parts), 8, 5, kernel=3))
    ends = "ends=1x2x4x4, steps=1x1x2x2"
    conv = "convolution(strides={0}, dilations=1x1, pads=(({1}, {1}), ({1}, {1})))"
    assert lines(program) == [
        f"s0 f32:bfyx:1x2x2x2 = slice(starts=0x0x0x0, {ends})(x)",
        f"s1 f32:bfyx:1x2x2x2 = slice(starts=0x0x1x0, {ends})(x)",
        f"s2 f32:bfyx:1x2x2x2 = slice(starts=0x0x0x1, {ends})(x)",
        f"s3 f32:bfyx:1x2x2x2 = slice(starts=0x0x1x1, {ends})(x)",
        "focus f32:bfyx:1x8x2x2 = concat(axis=1)(s0, s1, s2, s3)",
        f"y f32:bfyx:1x5x2x2 = {conv.format('1x1', 1)}(focus, y_w)",
    ]
    assert lines(run(program, Decompose())) == [
        "focus f32:bfyx:1x8x2x2 = shuffle(size=2, to_depth=True)(x)",
        f"y f32:bfyx:1x5x2x2 = {conv.format('1x1', 1)}(focus, y/weights)",
    ]


def test_windows_of_one_element_are_windows_of_a_block() -> None:
    net = focus(kernel=1, shape=(1, 2, 4, 4))
    (line,) = lines(run(net.program("y"), Decompose()))
    made = "convolution(strides=2x2, dilations=1x1, pads=((2, 0), (2, 2)))"
    assert line == f"y f32:bfyx:1x6x3x4 = {made}(x, y/weights, b)"


@pytest.mark.parametrize(
    ("net", "kinds"),
    [
        (focus(), [Shuffle, Convolution]),
        (focus(order=PHASES[::-1], stride=2), [Shuffle, Convolution]),
        (focus((1, 16, 4, 4), kernel=1), [Shuffle, Convolution]),
        (focus((1, 1, 6, 9), [(i, j) for j in range(3) for i in range(3)], 3, 2), [Shuffle, Convolution]),
        (focus((2, 15, 4, 6), kernel=1), [Convolution]),
        (focus((2, 1, 6, 9), [(i, j) for j in range(3) for i in range(3)], 3, 1, stride=2), [Convolution]),
    ],
)
def test_slices_that_hold_every_pixel_are_a_space_to_depth(net: Net, kinds: list[type]) -> None:
    assert kinds_of(net) == kinds


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("size", [2, 3])
def test_pixels_that_are_shuffled_to_channels_go_into_windows_of_one_element(size: int, first: bool) -> None:
    for kernel, kinds in ((1, [Convolution]), (3, [Shuffle, Convolution])):
        net = Net()
        shuffled = net.add("deep", Shuffle(size, True, first), net.input("x", (2, 3, 6, 12)))
        net.conv("y", shuffled, 3 * size * size, 4, kernel)
        assert kinds_of(net) == kinds


@pytest.mark.parametrize(
    "net",
    [
        focus(order=((0, 0), (1, 0), (0, 1), (0, 1))),
        focus(order=PHASES[:3]),
        focus((1, 3, 9, 8), end=8),
        focus((1, 1, 4, 4), groups=2),
    ],
)
def test_others_stay(net: Net) -> None:
    assert Concat in kinds_of(net)


def test_parts_that_something_else_reads_stay() -> None:
    net = focus()
    net.add("z", RELU, "part1")
    assert Concat in kinds_of(net, "z")
    net = focus()
    assert Concat in kinds_of(net, "focus")


def test_parts_of_another_annotation_stay() -> None:
    net = Net()
    x = net.input("x", (1, 3, 4, 4))
    more = [{"annotation": "cpu"}, {}, {}, {}]
    parts = [part(net, x, f"p{i}", *place, **m) for i, (place, m) in enumerate(zip(PHASES, more, strict=True))]
    net.conv("y", net.concat("focus", *parts), 12, 4, kernel=3, annotation="gpu")
    assert Concat in kinds_of(net)


def test_weights_that_are_computed_stay() -> None:
    net = Net()
    shuffled = net.add("deep", Shuffle(2, True), net.input("x", (1, 3, 4, 4)))
    net.add("y", Convolution((1, 1), (1, 1), ((0, 0), (0, 0))), shuffled, net.input("w", (2, 12, 1, 1)))
    assert kinds_of(net) == [Shuffle, Convolution]
