"""Fixtures of the tests of implementations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import planted


@pytest.fixture
def own_classes() -> Iterator[None]:
    """Let implementations be planned anew in this test, which changes what their plans are made of."""
    with planted.own_classes():
        yield
