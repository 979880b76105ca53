"""Models that keep few of the programs for the shapes that they have met."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from clgraph.model.specialisation import Specialisation

KEPT = 8
"""How many programs there is room for in models of :func:`keeping_few`."""


def keeping_few(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Count every specialisation as 1 MiB, and return the options that leave room for ``KEPT`` of them."""
    monkeypatch.setattr(Specialisation, "nbytes", property(lambda self: 1 << 20))
    return {"shape_cache": KEPT}


def resident_bytes() -> int:
    """Return how much memory the process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()
