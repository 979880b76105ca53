"""A model of a pool: loaded, used by threads, and unloaded, any number of times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from clgraph.core.frozen import frozen, mutable
from clgraph.model.model import Model
from clgraph.network.budget import MemoryBudget
from clgraph.network.memory_need import spelled
from clgraph.throughput.streamed_model import StreamedModel

Pooled = Model | StreamedModel
Make = Callable[[MemoryBudget], Pooled]
"""Makes a model that counts in a budget."""


@frozen
class PooledReport:
    """What became of a model of a pool.

    Attributes:
        loaded: Whether it is; ``nbytes`` what it takes then, by device.
        users: How many use it now.
        loads, evictions: How often it was loaded, and unloaded for others.
        load_seconds: Its latest load took.
    """

    name: str
    loaded: bool
    nbytes: Mapping[str, int]
    users: int
    loads: int
    evictions: int
    load_seconds: float

    def __str__(self) -> str:
        taken = ", ".join(f"{spelled(n)} on {device}" for device, n in self.nbytes.items()) or "no device's memory"
        state = f"takes {taken}" if self.loaded else "not loaded"
        used = f", in use {self.users} times" if self.users else ""
        return f"{self.name}: {state}{used}; loaded {self.loads} times, evicted {self.evictions}"


@mutable
class PooledModel:
    """A name of a pool. What changes does so under the pool's lock; ``loading`` is held while the model is made.

    Attributes:
        users: The threads that use it, once for each use.
        used: When it was used last.
        leaving: Somebody waits for the end of its uses: who comes next waits until it was evicted.
    """

    name: str
    make: Make
    budget: MemoryBudget
    model: Pooled | None = None
    users: list[int] = field(default_factory=list)
    used: float = 0.0
    leaving: bool = False
    loads: int = 0
    evictions: int = 0
    load_seconds: float = 0.0
    loading: threading.Lock = field(default_factory=threading.Lock)

    def load(self, budget: MemoryBudget, tell: Callable[[str, str], None]) -> Pooled:
        """Return the model, made where it is not there as a part of *budget*, of which *tell* is told."""
        with self.loading:
            if self.model is None:
                begin = time.monotonic()
                # What the evicted one took counts until it is given back: not here.
                self.budget = budget.part()
                self.model = self.make(self.budget)
                self.loads += 1
                self.load_seconds = time.monotonic() - begin
                tell(self.name, "load")
            return self.model

    def taken_out(self) -> Pooled | None:
        """Take the model out of the pool and return it, if it is not in use."""
        if self.users or self.model is None:
            return None
        model, self.model = self.model, None
        self.evictions += 1
        return model

    @property
    def report(self) -> PooledReport:
        """The report of the model."""
        loaded = self.model is not None
        taken = self.budget.taken if loaded else {}
        return PooledReport(self.name, loaded, taken, len(self.users), self.loads, self.evictions, self.load_seconds)


class Use:
    """A use of a model of a pool, which is not evicted before it is ended.

    Attributes:
        model: The model, loaded.
    """

    def __init__(self, model: Pooled, end: Callable[[], None]) -> None:
        """Take the model, and what ends the use."""
        self.model: Any = model
        self._end: Callable[[], None] | None = end

    def end(self, *_: object) -> None:
        """End it; further calls do nothing."""
        end, self._end = self._end, None
        if end is not None:
            end()
