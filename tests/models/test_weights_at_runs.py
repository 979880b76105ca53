"""Convolutions of single elements, compiled: their weights are packed as the kernel reads them, constants or not."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.ops.convolution import Convolution
from tests.support.programs import Net


@pytest.mark.opencl
@pytest.mark.parametrize("constant", [True, False])
def test_few_pixels_that_are_one_row_have_the_weights_of_that_row(device: str, constant: bool) -> None:
    """A row of 6 pixels and one of 36 have blocks of 16 and 32 output channels at a time."""
    net = Net()
    x, w = net.input("x", (1, 32, 6, 6)), np.random.default_rng(1).standard_normal((64, 32, 1, 1)).astype(np.float32)
    weights = net.constant("w", w) if constant else net.input("w", w.shape)
    net.add("y", Convolution((1, 1), (1, 1), ((0, 0), (0, 0))), x, weights)
    net.output("y")
    given = np.random.default_rng(0).standard_normal((1, 32, 6, 6)).astype(np.float32)
    feeds = {"x": given} if constant else {"x": given, "w": w}
    found = clgraph.compile(net, device).run(feeds)["y"][0].reshape(64, 36)
    left, right = w[:, :, 0, 0].astype(np.float64), given[0].reshape(32, 36).astype(np.float64)
    # A sum of 32 products, rounded as often.
    assert (np.abs(found - left @ right) <= 33 * 2.0**-24 * (np.abs(left) @ np.abs(right))).all()
