"""Convolutions and pooling of volumes, one behind the other: they run in tiles on CPUs, as those of slices."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.pooling import Pooling
from clgraph.passes.reference import random_feeds, run_reference
from tests.support.programs import Net

ONE = ((1, 1),) * 3


@pytest.mark.opencl
def test_volumes_stay_slices_between_convolutions_pooling_and_enlarging_and_run_in_tiles(device) -> None:
    net = Net()
    value = net.input("x", (1, 16, 6, 9, 8))
    for i in range(2):
        weights = net.data(f"w{i}", 16, 16, 3, 3, 3)
        value = net.add(f"c{i}", Convolution((1, 1, 1), (1, 1, 1), ONE), value, weights)
    value = net.add("p", Pooling("max", (2, 3, 2), strides=(2, 2, 2), pads=((0, 0), (1, 0), (0, 0))), value)
    larger = ConvTranspose((2, 2, 2), (1, 1, 1), ONE, output_padding=(1, 0, 1))
    value = net.add("t", larger, value, net.data("v", 16, 16, 3, 3, 3))
    program, feeds = net.program(value), random_feeds(net.build())
    before = run_reference(program, feeds, exact=True)[value]
    model = clgraph.compile(net, device, config={"winograd": False})
    (found,) = model.run(feeds).values()
    for v in program.constants:
        v.constant = np.abs(v.constant)
    magnitude = run_reference(program, {n: np.abs(a) for n, a in feeds.items()}, exact=True)[value]
    # Two sums of 432 products, and one of at most eight taps of 16 channels.
    assert (np.abs(found - before) <= (2 * (432 + 1) + 128 + 1) * 2.0**-24 * magnitude).all()
    kinds = [n.primitive.kind for n in model.program]
    assert kinds.count("transpose") <= 2
    assert {"convolution", "pooling", "conv_transpose"} <= {*kinds}
    assert not any(n.choice.implementation.general for n in model.program)
