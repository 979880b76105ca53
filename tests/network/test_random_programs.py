"""Random programs through every pass, on the device, against the references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clgraph
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.reference import random_feeds, run_reference
from tests.conftest import DEVICES
from tests.support.random_nets import joined, networks

pytestmark = pytest.mark.opencl

# Sums of at most 260 channels and 9 kernel taps in float32: (260 * 9 + 8) * 2**-24 of the sum of magnitudes, which for
# weights that keep the variance is below 16 times the largest result; a net has at most 6 such layers in a row.
BOUND = 6 * (260 * 9 + 8) * 2.0**-24 * 16


def agrees(net, outputs, device: str, **config) -> None:
    for name in outputs:
        net.output(name)
    program = net.build()
    feeds = random_feeds(program)
    expected = run_reference(program, feeds, exact=True)
    model = clgraph.compile(net, device=device, config=config)
    for _ in range(2):
        found = model.run(feeds)
        for name, array in expected.items():
            if not np.issubdtype(found[name].dtype, np.floating):
                np.testing.assert_array_equal(found[name], array, name)
                continue
            assert np.abs(found[name] - array).max(initial=0) <= BOUND * np.abs(array).max(initial=1e-30), name


@given(joined())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("device", DEVICES)
def test_joined_and_cut_tensors_hold_what_they_should(device: str, case) -> None:
    net, outputs = case
    agrees(net, outputs, device)


OPTIONAL = sorted(p.name for p in default_pipeline() if not p.required)


@given(networks(), st.sampled_from([None, *OPTIONAL]), st.sampled_from([None, *OPTIONAL]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("device", DEVICES)
def test_image_nets_compute_the_same_without_any_pass_and_stopped_anywhere(device, case, disabled, last) -> None:
    net, outputs = case
    agrees(net, outputs, device, disable_passes=frozenset(filter(None, [disabled])), stop_after=last)
