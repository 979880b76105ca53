"""Fixtures of all tests: the devices that tests with the mark ``opencl`` run on."""

from __future__ import annotations

import os

import pytest

from clgraph.errors import ClgraphError
from tests.support.ran import note_what_networks_run, pytest_sessionfinish, pytest_testnodedown

__all__ = ["engine", "note_what_networks_run", "pytest_sessionfinish", "pytest_testnodedown"]

DEVICES = [d.strip() for d in os.environ.get("CLGRAPH_TEST_DEVICES", "pocl").split(",") if d.strip()]
"""Names as ``clgraph.runtime.device.find_device`` takes them."""


@pytest.fixture(params=DEVICES, scope="session")
def engine(request: pytest.FixtureRequest):
    """An engine on each device of ``CLGRAPH_TEST_DEVICES``; skips where there is none such."""
    from clgraph.runtime.device import find_device
    from clgraph.runtime.engine import Engine

    try:
        return Engine(find_device(request.param))
    except ClgraphError as error:
        pytest.skip(f"no device {request.param!r}: {error}")


@pytest.fixture(params=DEVICES, scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Return each device of ``CLGRAPH_TEST_DEVICES`` as ``clgraph.compile`` takes it; skip where there is none such."""
    from clgraph.runtime.device import find_device

    try:
        return find_device(request.param).info.name
    except ClgraphError as error:
        pytest.skip(f"no device {request.param!r}: {error}")
