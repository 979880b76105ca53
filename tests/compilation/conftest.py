"""Saved models."""

from __future__ import annotations

from pathlib import Path

import pytest

import clgraph
from tests.support.models import small_model
from tests.support.saved_families import used_once


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small model compiled for the host."""
    path = tmp_path / "small.clg"
    clgraph.compile(small_model(), device="host").save(path)
    return path


@pytest.fixture
def family_file(device: str, tmp_path: Path) -> Path:
    """A saved model with a family, used for one shape."""
    used_once(device).save(tmp_path / "m.clg")
    return tmp_path / "m.clg"
