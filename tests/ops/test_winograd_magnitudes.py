"""Winograd convolutions of very large and very small numbers: they overflow where direct ones do, not before."""

import numpy as np
import pytest

import clgraph
from clgraph.ops.convolution import Convolution
from tests.support.winograd import GAINS, ROUNDINGS, winograd

NAMES = {"cpu": "convolution.winograd_fsv16", "gpu": "convolution.gpu_winograd"}
PADS = ((1, 1), (1, 1))
SHAPE, WEIGHTS = (1, 48, 21, 18), (32, 48, 3, 3)


def run(x, w, device_class, device, stride=1):
    """Return the convolution by Winograd's transforms."""
    topology = clgraph.Topology()
    inputs = topology.input("x", x.shape), topology.constant("w", w)
    topology.output("y", topology.add("conv", Convolution((stride, stride), (1, 1), PADS), *inputs))
    config = {"device_class": device_class, "winograd": True, "force_kernels": {"conv": NAMES[device_class]}}
    model = clgraph.compile(topology, device=device, config=config)
    assert model.explain()["conv"].implementation == NAMES[device_class]
    return model.run({"x": x})["y"]


WAYS = [*((name, 1) for name in NAMES), ("cpu", 2)]
"""Classes of devices, and strides that they transform for."""


@pytest.mark.opencl
@pytest.mark.parametrize(("device_class", "stride"), WAYS)
@pytest.mark.parametrize(
    ("inputs", "weights"), [(125, -10), (120, 0), (60, 58), (0, 118), (-10, 125), (-101, 0), (-120, 20), (-118, 118)]
)
def test_numbers_of_any_size_are_within_the_bound(inputs, weights, device_class, stride, device, rng):
    x = (rng.uniform(-1, 1, SHAPE) * 2.0**inputs).astype(np.float32)
    w = (rng.uniform(-1, 1, WEIGHTS) * 2.0**weights).astype(np.float32)
    (want,) = Convolution((stride, stride), (1, 1), PADS).reference(x.astype(np.float64), w.astype(np.float64))
    channels = WEIGHTS[1]
    # The header's bound with a unit of the second order, and what inputs below 2^-102 lose.
    size = winograd(x.astype(np.float64), w.astype(np.float64), PADS, magnitude=True, stride=stride)
    bound = 2.0**-24 * (channels + ROUNDINGS[stride] + 1) * size
    bound += channels * np.abs(w).max().astype(np.float64) * GAINS[stride] ** 2 * 2.0**-126
    assert (np.abs(run(x, w, device_class, device, stride) - want) <= bound).all()


@pytest.mark.opencl
@pytest.mark.parametrize(("device_class", "stride"), WAYS)
def test_sums_that_cancel_do_not_overflow_on_the_way(device_class, stride, device):
    # Every input is nearly the largest float, and every second weight takes away what the one before has added.
    x = np.full(SHAPE, 3e38, np.float32)
    w = np.ones(WEIGHTS, np.float32) * np.where(np.arange(WEIGHTS[1]) % 2, 0.5, -0.5).astype(np.float32)[:, None, None]
    y = run(x, w, device_class, device, stride)
    assert np.isfinite(y).all()
    assert (
        np.abs(y).max()
        <= 2.0**-24 * (WEIGHTS[1] + ROUNDINGS[stride] + 1) * GAINS[stride] ** 2 * 0.5 * 3e38 * WEIGHTS[1]
    )


@pytest.mark.opencl
@pytest.mark.parametrize("device_class", NAMES)
def test_what_is_too_large_is_infinite(device_class, device):
    x, w = np.full(SHAPE, 3e38, np.float32), np.full(WEIGHTS, 2.0, np.float32)
    assert (run(x, w, device_class, device) == np.inf).all()
