"""Every test of passes runs on the implementations of ``tests.support.fakes``."""

from __future__ import annotations

import pytest

from tests.support.fakes import fake_registry


@pytest.fixture(autouse=True)
def fakes():
    with fake_registry():
        yield
