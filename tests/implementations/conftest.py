"""Fixtures of the tests of implementations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import planted
from tests.support.of_a_kind import on_a_cpu


@pytest.fixture(autouse=True)
def tile_functions_are_for_cpus(request: pytest.FixtureRequest) -> None:
    """Leave out tests of the package for CPUs on other devices."""
    if "implementations/cpu/" in request.node.nodeid and "engine" in request.fixturenames:
        on_a_cpu(request.getfixturevalue("engine"))


@pytest.fixture
def own_classes() -> Iterator[None]:
    """Let implementations be planned anew in this test, which changes what their plans are made of."""
    with planted.own_classes():
        yield
