"""Random programs through every pass, on the device, against the references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clgraph
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.reference import random_feeds, run_reference
from tests.conftest import DEVICES
from tests.support.programs import RELU, Net
from tests.support.random_nets import joined, networks
from tests.support.rounding import bounds


def agrees(net, outputs, device: str, *, winograd: bool, **config) -> None:
    for name in outputs:
        net.output(name)
    program = net.build()
    feeds = random_feeds(program)
    expected, allowed = run_reference(program, feeds, exact=True), bounds(program, feeds, winograd=winograd)
    model = clgraph.compile(net, device=device, config={"winograd": winograd, **config})
    for _ in range(2):
        found = model.run(feeds)
        for name, array in expected.items():
            if not np.issubdtype(found[name].dtype, np.floating):
                np.testing.assert_array_equal(found[name], array, name)
                continue
            assert allowed[name] is not None, name
            assert (np.abs(found[name] - array) <= allowed[name]).all(), name


@pytest.mark.opencl
@given(joined(), st.booleans())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("device", DEVICES)
def test_joined_and_cut_tensors_hold_what_they_should(device: str, case, winograd) -> None:
    net, outputs = case
    agrees(net, outputs, device, winograd=winograd)


OPTIONAL = sorted(p.name for p in default_pipeline() if not p.required)


@pytest.mark.opencl
@given(networks(), st.booleans(), st.sampled_from([None, *OPTIONAL]), st.sampled_from([None, *OPTIONAL]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("device", DEVICES)
def test_image_nets_compute_the_same_without_any_pass_and_stopped_anywhere(
    device, case, winograd, disabled, last
) -> None:
    net, outputs = case
    passes = {"disable_passes": frozenset(filter(None, [disabled])), "stop_after": last}
    agrees(net, outputs, device, winograd=winograd, **passes)


@pytest.mark.opencl
@pytest.mark.parametrize("device", DEVICES)
def test_a_convolution_with_its_normalization_folded_keeps_the_bounds(device: str) -> None:
    net = Net()
    statistics = [net.data(name, 24) for name in ("scale", "bias", "mean")]
    x = net.conv("c", net.input("x", (1, 16, 9, 9)), 16, 24, kernel=3)
    net.add("y", BatchNormalization(), x, *statistics, net.data("variance", 24, low=0.5))
    agrees(net, ["y"], device, winograd=False)


@given(networks())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_float32_keeps_the_bounds(case) -> None:
    net, outputs = case
    for name in outputs:
        net.output(name)
    program = net.build()
    feeds = random_feeds(program)
    exact, rounded = run_reference(program, feeds, exact=True), run_reference(program, feeds)
    for name, allowed in bounds(program, feeds).items():
        assert allowed is not None, name
        assert (np.abs(rounded[name] - exact[name]) <= allowed).all(), name


def test_the_bounds_are_narrow() -> None:
    net = Net()
    x = net.add("p", RELU, net.input("x", (1, 16, 9, 9)))
    program = net.program(net.conv("c", x, 16, 16, kernel=1), net.conv("d", x, 16, 16, kernel=3))
    feeds = random_feeds(program)
    exact, allowed = run_reference(program, feeds, exact=True), bounds(program, feeds, winograd=False)
    for name, products in (("c", 16), ("d", 16 * 9)):
        # The products and FOLDED roundings, of magnitudes that add up to a few times the largest sum.
        largest = np.abs(exact[name]).max()
        assert np.asarray(allowed[name]).max() < 4 * (products + 9) * 2.0**-24 * largest
