"""Channels that become pixels: what ``decompose`` spells them as, and that the results stay."""

from __future__ import annotations

import pytest

from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.reshape import Reshape
from clgraph.ops.space import Shuffle
from clgraph.ops.transpose import Transpose
from clgraph.passes.patterns.decompose import Decompose
from tests.support.programs import Net, primitives
from tests.support.rewritten import rewritten


def kinds_of(net: Net) -> list[type]:
    """Return the kinds that *net* becomes, after seeing that its results in float64 stay as they are."""
    program = rewritten(net, "y", by=Decompose())
    assert all(node.origin == ("y",) and node.annotation == "cpu" for node in program)
    return [type(p) for p in primitives(program)]


SPREAD = [Reshape, Transpose, Reshape]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("size", [2, 3])
def test_channels_become_pixels_by_a_transpose(size: int, first: bool) -> None:
    net = Net()
    net.add("y", Shuffle(size, channels_first=first), net.input("x", (2, 5 * size * size, 3, 4)), annotation="cpu")
    assert kinds_of(net) == SPREAD


def test_pixels_that_become_channels_stay() -> None:
    net = Net()
    net.add("y", Shuffle(2, to_depth=True), net.input("x", (1, 3, 4, 6)), annotation="cpu")
    assert kinds_of(net) == [Shuffle]


def enlarged(outputs: int, kernel: tuple[int, ...], strides: tuple[int, ...] = (), bias: bool = True, **more) -> Net:
    net, rank = Net(), len(kernel)
    x = net.input("x", (2, 6 * more.get("groups", 1), 5, 3, 4)[: 2 + rank])
    w = net.data("w", 6 * more.get("groups", 1), outputs, *kernel)
    none = {"dilations": (1,) * rank, "pads": ((0, 0),) * rank, "output_padding": (0,) * rank}
    p = ConvTranspose(strides=strides or kernel, **none | more)
    net.add("y", p, x, w, *[net.data("b", outputs * more.get("groups", 1))] * bias, annotation="cpu")
    return net


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("outputs", "kernel"), [(1, (2, 2)), (4, (2, 2)), (3, (4, 4)), (1, (8,)), (2, (2, 1, 4))])
def test_few_outputs_of_windows_side_by_side_are_channels(outputs: int, kernel: tuple[int, ...], bias: bool) -> None:
    slices = [Transpose, Reshape, Convolution, Reshape, Transpose]
    assert kinds_of(enlarged(outputs, kernel, bias=bias)) == [
        *(slices if len(kernel) == 3 else [Convolution]),
        *SPREAD,
    ]


@pytest.mark.parametrize(
    "net",
    [
        enlarged(5, (2, 2)),
        enlarged(1, (3, 3), (2, 2)),
        enlarged(1, (2, 2), (3, 3)),
        enlarged(1, (4, 4), pads=((1, 0), (0, 0))),
        enlarged(1, (2, 2), output_padding=(0, 1)),
        enlarged(1, (2, 2), dilations=(1, 2)),
    ],
)
def test_other_transposed_convolutions_stay(net: Net) -> None:
    assert kinds_of(net) == [ConvTranspose]


def test_weights_that_are_computed_stay() -> None:
    net = Net()
    p = ConvTranspose((2, 2), (1, 1), ((0, 0), (0, 0)), (0, 0))
    net.add("y", p, net.input("x", (1, 6, 3, 4)), net.input("w", (6, 1, 2, 2)), annotation="cpu")
    assert kinds_of(net) == [ConvTranspose]
