"""Transposed convolutions with few outputs whose windows overlap: ``decompose`` makes one convolution on CPUs."""

from __future__ import annotations

import pytest

from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.passes.patterns.decompose import Decompose
from tests.support.programs import Net, run
from tests.support.rewritten import rewritten

NONE, WHOLE, PIXELS = ((0, 0),), (0,), ((0, 0), (0, 0))


def enlarged(p: ConvTranspose, outputs: int, kernel: tuple[int, ...], spatial: tuple[int, ...]) -> Net:
    """Return a network of *p* on ten channels, with a bias."""
    net = Net()
    net.add("y", p, net.input("x", (2, 10, *spatial)), net.data("w", 10, outputs, *kernel), net.data("b", outputs))
    return net


@pytest.mark.parametrize(
    "net",
    [
        # An inverse short-time Fourier transform; results cut in the middle of a phase, and a remainder.
        enlarged(ConvTranspose((8,), (1,), NONE, WHOLE), 1, (32,), (9,)),
        enlarged(ConvTranspose((8,), (1,), ((12, 5),), (3,)), 2, (64,), (9,)),
        enlarged(ConvTranspose((4, 4), (1, 1), ((3, 2), (0, 7)), (0, 0)), 1, (16, 15), (3, 4)),
    ],
)
def test_few_outputs_of_overlapping_windows_are_channels_of_one_convolution(net: Net) -> None:
    program = rewritten(net, "y", by=Decompose())
    kinds = [n.primitive.kind for n in program]
    assert kinds[:4] == ["convolution", "reshape", "transpose", "reshape"]
    assert [type(n.primitive) for n in program].count(Convolution) == 1


@pytest.mark.parametrize(
    "net",
    [
        enlarged(ConvTranspose((2, 2), (1, 1), PIXELS, (0, 0)), 16, (4, 4), (3, 4)),
        enlarged(ConvTranspose((2, 2), (1, 1), PIXELS, (0, 0)), 1, (3, 3), (3, 4)),
        enlarged(ConvTranspose((8,), (1,), ((70, 0),), WHOLE), 1, (64,), (19,)),
    ],
    ids=["many outputs", "windows that hardly overlap", "more padding than window"],
)
def test_other_transposed_convolutions_stay(net: Net) -> None:
    assert [n.primitive.kind for n in run(net.program("y"), Decompose())] == ["conv_transpose"]
