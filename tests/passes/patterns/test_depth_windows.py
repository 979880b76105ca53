"""Convolutions of volumes: ``decompose`` makes convolutions of their slices of them on CPUs; the results stay."""

from __future__ import annotations

import pytest

from clgraph.ops.convolution import Convolution
from clgraph.passes.patterns.decompose import Decompose
from tests.support.programs import Net, run
from tests.support.rewritten import rewritten

ONE, NONE = ((1, 1),) * 3, ((0, 0),) * 3


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(
    ("kernel", "p", "convolutions"),
    [
        ((3, 3, 3), Convolution((1, 1, 1), (1, 1, 1), ONE), 1),
        ((3, 2, 1), Convolution((2, 1, 3), (2, 1, 1), ((3, 1), (0, 1), (2, 0))), 1),
        ((1, 3, 3), Convolution((1, 2, 2), (1, 1, 1), NONE), 1),
        ((1, 1, 1), Convolution((2, 1, 1), (1, 1, 1), NONE), 1),
        ((3, 3, 3), Convolution((1, 1, 1), (1, 1, 1), ONE, groups=2), 3),
        ((2, 3, 1), Convolution((2, 1, 1), (3, 1, 1), ONE, groups=4), 2),
    ],
)
def test_a_convolution_of_volumes_is_one_of_slices_or_a_sum_of_them(kernel, p, convolutions, fed) -> None:
    net = Net()
    x = net.input("x", (2, 4, 7, 6, 5))
    shape = (8, 4 // p.groups, *kernel)
    net.add("y", p, x, net.input("w", shape) if fed else net.data("w", *shape), net.data("b", 8))
    program = rewritten(net, "y", by=Decompose())
    made = [n for n in program if isinstance(n.primitive, Convolution)]
    assert [n.inputs[1].layout.rank for n in made] == [4] * convolutions


def test_slices_that_take_too_much_together_are_convolved_apart(monkeypatch) -> None:
    monkeypatch.setattr("clgraph.passes.patterns.depth_windows.JOINED", 1 << 10)
    net = Net()
    net.add("y", Convolution((1, 1, 1), (1, 1, 1), ONE), net.input("x", (1, 4, 5, 6, 7)), net.data("w", 8, 4, 3, 3, 3))
    assert [n.primitive.kind for n in run(net.program("y"), Decompose())].count("convolution") == 3


def test_volumes_without_elements_stay_what_they_are() -> None:
    net = Net()
    net.add("y", Convolution((1, 1, 1), (1, 1, 1), ONE), net.input("x", (0, 4, 5, 6, 7)), net.data("w", 8, 4, 3, 3, 3))
    assert [n.primitive.kind for n in run(net.program("y"), Decompose())] == ["convolution"]
