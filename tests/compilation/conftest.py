"""A saved model."""

from __future__ import annotations

from pathlib import Path

import pytest

import clgraph
from tests.support.models import small_model


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small model compiled for the host."""
    path = tmp_path / "small.clg"
    clgraph.compile(small_model(), device="host").save(path)
    return path
