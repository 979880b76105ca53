"""Many models in one process, within a budget of memory: loaded when they are used, unloaded when others need room."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from typing import Any, Self

from clgraph.compilation.entry import compile_model
from clgraph.core.frozen import frozen, mutable
from clgraph.core.log import Log
from clgraph.core.nearest import meant
from clgraph.errors import ClosedError, OptionError
from clgraph.model.model import Model
from clgraph.network.budget import MemoryBudget
from clgraph.network.memory_need import spelled
from clgraph.throughput.streamed_model import StreamedModel

Pooled = Model | StreamedModel
Make = Callable[[MemoryBudget], Pooled]
"""Makes a model that counts in a budget."""

LOOK = 0.01
"""Seconds after which who waits for room looks again."""

_log = Log(__name__)


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
class _Entry:
    """A model of the pool. What changes does so under the pool's lock; ``loading`` is held while it is made.

    Attributes:
        users: The threads that use it, once for each use.
        used: When it was used last.
        leaving: Somebody waits for the end of its uses: who comes next waits until it was evicted.
    """

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


class Pool:
    """Models by name, of which as many are loaded as fit into a budget of memory.

    A model is loaded when it is used first, and again when it was evicted: out of the model cache, and with the kernels
    that all models of the process share. Who needs room evicts what was used longest ago, never what is in use. Calls
    may come from any number of threads. A pool is a context manager that closes it.

    Attributes:
        budget: What the models take together.
        patience: Seconds that who needs room waits until others are done with what they use.
        tell: Told of a model that was loaded or evicted: its name, and ``load`` or ``evict``.
    """

    def __init__(self, memory_limit: int | str | MemoryBudget = 0, *, patience: float = 30.0, **options: Any) -> None:
        """Begin without models.

        Args:
            memory_limit: Bytes of each device, or ``"2 GiB"``; 0 for any number. A budget that others share may be
                given, of which the pool makes room for its own models.
            options: Arguments of :func:`clgraph.compile` for all models, where they bring no other.

        Raises:
            OptionError: The limit is not a number of bytes.
        """
        given = memory_limit if isinstance(memory_limit, MemoryBudget) else MemoryBudget(memory_limit)
        self.budget, self.patience, self._options = given.part(), patience, options
        self.budget.make_room = self._make_room
        self.tell: Callable[[str, str], None] = _logged
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()
        self._closed, self._closing = False, 0

    def add(self, name: str, source: Any, **options: Any) -> None:
        """Know the model of *source* as *name*; it is loaded when it is used.

        Args:
            options: Arguments of :func:`clgraph.compile`; with ``hint="throughput"`` it is a :class:`StreamedModel`.

        Raises:
            OptionError: There is one of that name.
        """
        self.add_made(name, partial(_compiled, source, {**self._options, **options}))

    def add_made(self, name: str, make: Make) -> None:
        """Know as *name* what *make* returns for a budget; raises as :meth:`add`."""
        with self._lock:
            self._check_open()
            if name in self._entries:
                raise OptionError(f"the pool has a model {name!r}: remove it before another takes its name")
            self._entries[name] = _Entry(make, self.budget.part())

    def remove(self, name: str) -> None:
        """Forget a model, and close it when its uses are over; raises as :meth:`using`."""
        with self._lock:
            entry = self._entry(name)
            del self._entries[name]
        with entry.loading:
            pass  # who loads it now uses it then
        while entry.users:
            time.sleep(LOOK)
        if entry.model is not None:
            entry.model.close()

    @contextmanager
    def using(self, name: str) -> Iterator[Any]:
        """Give the model for the time of a block, loaded if need be; behind it the model may be closed at any time.

        Raises:
            OptionError: The pool has no model of that name.
            MemoryLimitError: It does not fit beside what is in use.
            ClosedError: The pool was closed.
            ClgraphError: As ``clgraph.compile``.
        """
        use = self.begin(name, thread=threading.get_ident())
        try:
            yield use.model
        finally:
            use.end()

    def begin(self, name: str, *, thread: int = 0) -> Use:
        """Begin a use that any thread may end, with the model loaded if need be; raises as :meth:`using`.

        Args:
            thread: The one that ends it, and does nothing else meanwhile that waits for the end of its own uses.
        """
        entry = self._begin(name, thread)
        try:
            return Use(self._loaded(entry, name), partial(self._end, entry, thread))
        except BaseException:
            self._end(entry, thread)
            raise

    def begin_loaded(self, name: str) -> Use | None:
        """Begin a use of a model that is loaded, without waiting; ``None`` where it is not; raises as :meth:`using`."""
        with self._lock:
            self._check_open()
            entry = self._entry(name)
            if entry.model is None or entry.leaving:
                return None
            entry.users.append(0)
            return Use(entry.model, partial(self._end, entry, 0))

    def run(self, name: str, *given: Any, **named: Any) -> dict[str, Any]:
        """Run a model once, as :meth:`Model.run`; raises as that and :meth:`using`."""
        with self.using(name) as model:
            found: dict[str, Any] = model.run(*given, **named)
            return found

    def evict(self, name: str) -> bool:
        """Unload a model unless it is in use; say whether it was; raises as :meth:`using`."""
        with self._lock:
            model = self._taken_out(self._entry(name))
        return self._ended(name, model)

    def report_of(self, name: str) -> PooledReport:
        """Return what became of one model; raises as :meth:`using`."""
        return _reported(name, self._entry(name))

    @property
    def report(self) -> tuple[PooledReport, ...]:
        """What became of each model, in the order in which they were added."""
        return tuple(_reported(name, entry) for name, entry in list(self._entries.items()))

    def close(self) -> None:
        """Close all models, each when its uses are over; later uses are errors."""
        with self._lock:
            self._closed, names = True, list(self._entries)
        for name in names:
            self.remove(name)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        taken = ", ".join(f"{spelled(n)} on {device}" for device, n in self.budget.taken.items()) or "nothing"
        limit = f" of {spelled(self.budget)}" if self.budget else ""
        loaded = sum(entry.model is not None for entry in self._entries.values())
        return f"<Pool of {len(self)} models: {loaded} loaded, which take {taken}{limit}>"

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            raise OptionError(f"the pool has no model {name!r}{meant(name, self._entries)}")
        return self._entries[name]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the pool was closed: make another")

    def _begin(self, name: str, thread: int) -> _Entry:
        end = time.monotonic() + self.patience
        while True:
            with self._lock:
                self._check_open()
                entry = self._entry(name)
                if not entry.leaving or (thread and thread in entry.users) or time.monotonic() > end:
                    entry.users.append(thread)
                    return entry
            time.sleep(LOOK)

    def _end(self, entry: _Entry, thread: int) -> None:
        with self._lock:
            entry.users.remove(thread)
            entry.used = time.monotonic()

    def _loaded(self, entry: _Entry, name: str) -> Pooled:
        with entry.loading:
            if entry.model is None:
                begin = time.monotonic()
                # What the evicted one took counts until it is given back: not here.
                entry.budget = self.budget.part()
                entry.model = entry.make(entry.budget)
                entry.loads += 1
                entry.load_seconds = time.monotonic() - begin
                self.tell(name, "load")
            return entry.model

    def _make_room(self, asking: MemoryBudget, device: str) -> bool:
        """Evict the model that was used longest ago, of those that take memory of *device*; say whether there was one.

        Where every such model is in use by another thread, nobody begins to use the one that is to go, and this waits
        for the uses there are.
        """
        end, me = time.monotonic() + self.patience, threading.get_ident()
        waited: _Entry | None = None
        try:
            while True:
                with self._lock:
                    name, oldest = self._oldest(asking, device, me)
                    if (oldest is None and not self._closing) or time.monotonic() > end:
                        return False
                    model = None if oldest is None else self._taken_out(oldest)
                    if oldest is not None and model is None and waited is None:
                        oldest.leaving, waited = True, oldest
                    going = self._closing if oldest is None else 0
                if model is not None:
                    return self._ended(name, model)
                time.sleep(LOOK)
                if going:
                    return True  # what others have evicted is there soon
        finally:
            if waited is not None:
                waited.leaving = False

    def _oldest(self, asking: MemoryBudget, device: str, thread: int) -> tuple[str, _Entry | None]:
        """Return who goes next for the sake of *asking*, an idle one if there is; nobody whom *thread* itself uses."""
        there = [
            (name, entry)
            for name, entry in self._entries.items()
            # One that is being made has no model yet, takes memory, and is in use.
            if entry.budget is not asking and (entry.model or entry.users) and thread not in entry.users
        ]
        taking = [(name, entry) for name, entry in there if entry.budget.taken.get(device)]
        return min(taking, key=lambda item: (bool(item[1].users), item[1].used), default=("", None))

    def _taken_out(self, entry: _Entry) -> Pooled | None:
        """Return the model of an entry that nobody uses, which is without one from now on."""
        if entry.users or entry.model is None:
            return None
        model, entry.model = entry.model, None
        entry.evictions += 1
        self._closing += 1
        return model

    def _ended(self, name: str, model: Pooled | None) -> bool:
        if model is None:
            return False
        try:
            model.close()
        finally:
            with self._lock:
                self._closing -= 1
        self.tell(name, "evict")
        return True


def _reported(name: str, entry: _Entry) -> PooledReport:
    loaded = entry.model is not None
    taken = entry.budget.taken if loaded else {}
    return PooledReport(name, loaded, taken, len(entry.users), entry.loads, entry.evictions, entry.load_seconds)


def _logged(name: str, what: str) -> None:
    _log.info("%s: %s", what, name)


def _compiled(source: Any, options: Mapping[str, Any], budget: MemoryBudget) -> Pooled:
    made: Pooled = compile_model(source, memory_limit=budget, **options)
    return made
