"""Fixtures of the tests of stages."""

from __future__ import annotations

import pytest

from clgraph.model.stages.runner import PieceRunner


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[PieceRunner]:
    """Return the pieces that were decided about since the list was cleared."""
    calls, run = list[PieceRunner](), PieceRunner.run
    monkeypatch.setattr(PieceRunner, "run", lambda self, *given: calls.append(self) or run(self, *given))
    return calls
