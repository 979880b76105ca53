"""Enlarging, pooling and interpolation of volumes: ``decompose`` takes their slices on CPUs; the results stay."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.pooling import Pooling
from clgraph.ops.resize import Resize
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.reference import random_feeds, run_reference
from tests.support.programs import Net, run
from tests.support.rewritten import rewritten

ONE, NONE = ((1, 1),) * 3, ((0, 0),) * 3


@pytest.mark.parametrize("joined", [1 << 20, 1 << 8], ids=["joined", "added"])
@pytest.mark.parametrize(
    ("kernel", "p"),
    [
        ((2, 2, 2), ConvTranspose((2, 2, 2), (1, 1, 1), NONE)),
        ((3, 3, 3), ConvTranspose((2, 2, 2), (1, 1, 1), ONE, (1, 1, 1))),
        ((4, 3, 1), ConvTranspose((2, 1, 1), (1, 1, 1), ((3, 0), (1, 0), (0, 0)))),
        ((3, 1, 2), ConvTranspose((3, 1, 2), (2, 1, 1), ((1, 2), (0, 0), (1, 0)), (2, 0, 1))),
        ((1, 2, 2), ConvTranspose((1, 2, 2), (1, 1, 1), NONE)),
        ((1, 1, 1), ConvTranspose((3, 2, 1), (1, 1, 1), NONE, (2, 1, 0))),
        ((5, 1, 1), ConvTranspose((1, 1, 1), (3, 1, 1), ((4, 4), (0, 0), (0, 0)))),
    ],
)
def test_a_transposed_convolution_of_volumes_is_one_of_slices_or_a_sum_of_them(monkeypatch, kernel, p, joined) -> None:
    monkeypatch.setattr("clgraph.passes.patterns.volume_upsampling.JOINED", joined)
    net = Net()
    net.add("y", p, net.input("x", (2, 4, 7, 6, 5)), net.data("w", 4, 3, *kernel), net.data("b", 3))
    program = rewritten(net, "y", by=Decompose())
    made = [n for n in program if n.primitive.kind in ("conv_transpose", "convolution")]
    assert {n.inputs[1].layout.rank for n in made} == {4}
    assert len(made) == 1 or joined == 1 << 8


@pytest.mark.parametrize("function", ["max", "average"])
@pytest.mark.parametrize(
    ("kernel", "rest"),
    [
        ((2, 2, 2), {"strides": (2, 2, 2)}),
        ((3, 3, 3), {"strides": (2, 1, 2), "pads": ONE}),
        ((3, 2, 1), {"strides": (2, 2, 1), "pads": ((1, 0), (0, 1), (0, 0)), "ceil_mode": True}),
        ((3, 2, 2), {"dilations": (2, 1, 3), "pads": ((2, 1), (0, 0), (1, 1)), "count_include_pad": True}),
        ((1, 2, 2), {"strides": (1, 2, 2)}),
    ],
)
def test_pooling_of_volumes_is_that_of_slices_and_over_them(function, kernel, rest) -> None:
    net = Net()
    net.add("c", Convolution(), net.input("x", (2, 3, 8, 7, 6)), net.data("w", 3, 3, 1, 1, 1))
    net.add("y", Pooling(function, kernel, **rest), "c")
    program = rewritten(net, "y", by=Decompose())
    assert [len(n.primitive.kernel) for n in program if isinstance(n.primitive, Pooling)] == [2]


@pytest.mark.parametrize(
    "p",
    [
        Resize("linear", shape=(2, 3, 8, 12, 10), scales=(1.0, 1.0, 2.0, 2.0, 2.0)),
        Resize("cubic", "align_corners", shape=(2, 3, 7, 3, 5), scales=(1.0, 1.0, 1.75, 0.5, 1.0)),
        Resize("linear", "asymmetric", shape=(2, 3, 4, 9, 7), scales=(1.0, 1.0, 1.0, 1.5, 1.4)),
        Resize("linear", antialias=True, shape=(2, 3, 3, 4, 5), scales=(1.0, 1.0, 0.75, 0.7, 1.0)),
        Resize("nearest", "asymmetric", "floor", shape=(2, 3, 6, 9, 5), scales=(1.0, 1.0, 1.5, 1.5, 1.0)),
    ],
)
def test_an_interpolation_of_volumes_is_one_along_the_first_axis_and_one_of_slices(p) -> None:
    net = Net()
    net.add("y", p, net.input("x", (2, 3, 4, 6, 5)))
    program, feeds = net.program("y"), random_feeds(net.build())
    before = run_reference(program, feeds, exact=True)["y"]
    program = run(program, Decompose())
    made = [n.primitive for n in program if isinstance(n.primitive, Resize)]
    assert [len(step.shape) for step in made] == [5] * (p.shape[2] != 4) + [4]
    # Both sum up to 4 elements along each of 3 axes, with the same factors, whose magnitudes add up to 1.375 at most.
    bound = 2 * 3 * (4 + 1) * 2.0**-53 * 1.375**3 * np.abs(feeds["x"]).max()
    np.testing.assert_allclose(run_reference(program, feeds, exact=True)["y"], before, rtol=0, atol=bound)


def test_pooling_of_volumes_stays_where_nothing_computes_slices() -> None:
    net = Net()
    net.add("y", Pooling("max", (2, 2, 2)), net.input("x", (2, 3, 8, 7, 6)))
    assert [n.primitive.kind for n in run(net.program("y"), Decompose())] == ["pooling"]


def test_what_has_no_elements_weights_that_are_computed_and_elements_that_are_repeated_stay() -> None:
    net = Net()
    net.add("a", ConvTranspose((2,) * 3, (1,) * 3, NONE), net.input("x", (0, 4, 5, 6, 7)), net.data("w", 4, 2, 2, 2, 2))
    weights = net.input("v", (4, 2, 2, 2, 2))
    net.add("b", ConvTranspose((2,) * 3, (1,) * 3, NONE), net.input("y", (1, 4, 5, 6, 7)), weights)
    net.add("c", Pooling("max", (2, 2, 2)), net.input("z", (0, 4, 5, 6, 7)))
    net.add("d", Resize(shape=(1, 4, 10, 6, 7), scales=(1.0, 1.0, 2.0, 1.0, 1.0)), "y")
    net.add("e", Resize("linear", shape=(1, 4, 7, 6, 7), scales=(1.0, 1.0, 1.4, 1.0, 1.0)), "y")
    kinds = [n.primitive.kind for n in run(net.program("a", "b", "c", "d", "e"), Decompose())]
    assert kinds == ["conv_transpose", "conv_transpose", "pooling", "resize", "resize"]
