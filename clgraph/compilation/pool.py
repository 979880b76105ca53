"""Many models in one process, within a budget of memory: loaded when they are used, unloaded when others need room."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self
from weakref import ReferenceType, ref

from clgraph.compilation.entry import compile_model
from clgraph.compilation.pooled_model import Make, Pooled, PooledModel, PooledReport, Use
from clgraph.core.log import Log
from clgraph.core.nearest import meant
from clgraph.errors import ClosedError, OptionError
from clgraph.network.budget import MemoryBudget
from clgraph.network.memory_need import spelled

LOOK = 0.01
"""Seconds after which who waits for room looks again."""

_log = Log(__name__)


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
        self.budget.make_room = partial(_make_room, ref(self))
        self.tell: Callable[[str, str], None] = _logged
        self._entries: dict[str, PooledModel] = {}
        self._lock = threading.Lock()
        self._closed, self._closing = False, 0

    def add(self, name: str, source: Any, **options: Any) -> None:
        """Register the model of *source* as *name*; it is loaded at its first use.

        Args:
            options: Arguments of :func:`clgraph.compile`; with ``hint="throughput"`` it is a :class:`StreamedModel`.

        Raises:
            OptionError: There is one of that name.
        """
        self.add_made(name, partial(_compiled, source, {**self._options, **options}))

    def add_made(self, name: str, make: Make) -> None:
        """Register the model that *make* returns for a budget as *name*; raises as :meth:`add`."""
        with self._lock:
            self._check_open()
            if name in self._entries:
                raise OptionError(f"the pool has a model {name!r}: remove it before another takes its name")
            self._entries[name] = PooledModel(name, make, self.budget.part())

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
            return Use(entry.load(self.budget, self.tell), partial(self._end, entry, thread))
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
            entry = self._entry(name)
            model = self._taken_out(entry)
        return self._ended(entry, model)

    def report_of(self, name: str) -> PooledReport:
        """Return what became of one model; raises as :meth:`using`."""
        return self._entry(name).report

    @property
    def report(self) -> tuple[PooledReport, ...]:
        """What became of each model, in the order in which they were added."""
        return tuple(entry.report for entry in list(self._entries.values()))

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

    def _entry(self, name: str) -> PooledModel:
        if name not in self._entries:
            raise OptionError(f"the pool has no model {name!r}{meant(name, self._entries)}")
        return self._entries[name]

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the pool was closed: make another")

    def _begin(self, name: str, thread: int) -> PooledModel:
        end = time.monotonic() + self.patience
        while True:
            with self._lock:
                self._check_open()
                entry = self._entry(name)
                if not entry.leaving or (thread and thread in entry.users) or time.monotonic() > end:
                    entry.users.append(thread)
                    return entry
            time.sleep(LOOK)

    def _end(self, entry: PooledModel, thread: int) -> None:
        with self._lock:
            entry.users.remove(thread)
            entry.used = time.monotonic()

    def _make_room(self, asking: MemoryBudget, device: str) -> bool:
        """Evict the model that was used longest ago, of those that take memory of *device*; say whether there was one.

        Where every such model is in use by another thread, nobody begins to use the one that is to go, and this waits
        for the uses there are.
        """
        end, me = time.monotonic() + self.patience, threading.get_ident()
        waited: PooledModel | None = None
        try:
            while True:
                with self._lock:
                    oldest = self._oldest(asking, device, me)
                    if (oldest is None and not self._closing) or time.monotonic() > end:
                        return False
                    model = None if oldest is None else self._taken_out(oldest)
                    if oldest is not None and model is None and waited is None:
                        oldest.leaving, waited = True, oldest
                    going = self._closing if oldest is None else 0
                if oldest is not None and model is not None:
                    return self._ended(oldest, model)
                time.sleep(LOOK)
                if going:
                    return True  # what others have evicted is there soon
        finally:
            if waited is not None:
                waited.leaving = False

    def _oldest(self, asking: MemoryBudget, device: str, thread: int) -> PooledModel | None:
        """Return who goes next for the sake of *asking*, an idle one if there is; nobody whom *thread* itself uses."""
        there = [
            entry
            for entry in self._entries.values()
            # One that is being made has no model yet, takes memory, and is in use.
            if entry.budget is not asking and (entry.model or entry.users) and thread not in entry.users
        ]
        taking = [entry for entry in there if entry.budget.taken.get(device)]
        return min(taking, key=lambda entry: (bool(entry.users), entry.used), default=None)

    def _taken_out(self, entry: PooledModel) -> Pooled | None:
        """Return the model of an entry that nobody uses; it counts as being closed until :meth:`_ended`."""
        model = entry.taken_out()
        self._closing += model is not None
        return model

    def _ended(self, entry: PooledModel, model: Pooled | None) -> bool:
        if model is None:
            return False
        try:
            model.close()
        finally:
            with self._lock:
                self._closing -= 1
        self.tell(entry.name, "evict")
        return True


def _make_room(pool: ReferenceType[Pool], asking: MemoryBudget, device: str) -> bool:
    """Ask *pool*, which its budget does not keep alive, with its models."""
    found = pool()
    return found is not None and found._make_room(asking, device)


def _logged(name: str, what: str) -> None:
    _log.info("%s: %s", what, name)


def _compiled(source: Any, options: Mapping[str, Any], budget: MemoryBudget) -> Pooled:
    made: Pooled = compile_model(source, memory_limit=budget, **options)
    return made
