"""What engines allocate, noted."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

from clgraph.runtime import memory
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory


def noted_allocations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the bytes of what engines allocate from now on."""
    taken: list[int] = []
    allocate, upload = Engine.allocate, Engine.upload

    def allocating(self: Engine, nbytes: int, what: str) -> Any:
        taken.append(nbytes)
        return allocate(self, nbytes, what)

    def uploading(self: Engine, array: np.ndarray, what: str) -> Any:
        before = len(taken)
        memory = upload(self, array, what)
        taken[before:] = [array.nbytes]
        return memory

    monkeypatch.setattr(Engine, "allocate", allocating)
    monkeypatch.setattr(Engine, "upload", uploading)
    return taken


def noted_memory(monkeypatch: pytest.MonkeyPatch) -> weakref.WeakSet[Memory]:
    """Return what is alive of the memory that is allocated from now on."""
    alive: weakref.WeakSet[Memory] = weakref.WeakSet()
    allocate = memory.allocate

    def noting(*arguments: Any) -> Memory:
        made = allocate(*arguments)
        alive.add(made)
        return made

    monkeypatch.setattr(memory, "allocate", noting)
    return alive
