"""Tests of implementations for one kind of device, on devices of another."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from clgraph.runtime.engine import Engine
from clgraph.selector.implementation import IMPLEMENTATIONS


def for_its_kind(engine: Engine, names: Iterable[str]) -> None:
    """Skip the test where none of the implementations called *names* is for devices of the engine's kind."""
    kinds = frozenset[str]().union(*(IMPLEMENTATIONS[name].serves.kinds for name in names))
    if engine.info.kind not in kinds:
        pytest.skip(f"{', '.join(names)} is for devices of the class {', '.join(sorted(kinds))}")


def on_a_cpu(engine: Engine) -> None:
    """Skip the test of a tile function on a GPU."""
    if engine.info.kind != "cpu":
        pytest.skip("tile functions are for CPUs")
