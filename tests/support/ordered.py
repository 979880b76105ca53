"""The order of tests: two workers do not both wait for the library of kernels, which the first test compiles."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that have no device in the middle, where the second worker begins (``--dist worksteal``).

    Last, because pytest has put those together by then that share an engine.
    """
    with_device = [item for item in items if item.get_closest_marker("opencl")]
    without = [item for item in items if not item.get_closest_marker("opencl")]
    half = len(with_device) // 2
    items[:] = with_device[:half] + without + with_device[half:]
