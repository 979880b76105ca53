"""Tests of implementations for one kind of device, on devices of another."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from clgraph.runtime.device import find_device
from clgraph.runtime.engine import Engine
from clgraph.selector.implementation import IMPLEMENTATIONS


def for_its_kind(engine: Engine, names: Iterable[str]) -> None:
    """Skip the test where none of the implementations called *names* is for devices of the engine's kind."""
    kinds = frozenset[str]().union(*(IMPLEMENTATIONS[name].serves.kinds for name in names))
    if engine.info.kind not in kinds:
        pytest.skip(f"{', '.join(names)} is for devices of the class {', '.join(sorted(kinds))}")


def on_a_cpu(device: Engine | str) -> None:
    """Skip the test of tile functions where an engine's device, or that of a name, is a GPU."""
    info = find_device(device).info if isinstance(device, str) else device.info
    if info.kind != "cpu":
        pytest.skip("tile functions are for CPUs")
