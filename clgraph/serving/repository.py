"""The models that are served: which are ready, which are broken and why; loaded and unloaded while the server runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from time import monotonic
from typing import Any

from clgraph.compilation.entry import compile_model
from clgraph.compilation.pool import Pool
from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError, ModelError, NotReadyError, UnknownModelError
from clgraph.graph.faults import faults
from clgraph.serving.folder import Folder, Found, newest_first
from clgraph.serving.loading import Compile, options_of, version_compiler, versions_of
from clgraph.serving.logs import event, fault
from clgraph.serving.options import ServerOptions
from clgraph.serving.served_model import EVICTED, ServedModel
from clgraph.serving.statuses import text_of

Key = tuple[str, int]

UNLOADED, LOADING = "unloaded", "it is being loaded"
"""Reasons of what a client has unloaded, and of what has not been ready yet."""


@frozen
class Entry:
    """A version of a model in the index.

    Attributes:
        found: Its files in the folder.
        model: The model that is served, perhaps made of earlier files; ``None`` if none is.
        reason: Why the present files are not served; empty if they are.
    """

    found: Found
    model: ServedModel | None
    reason: str

    @property
    def state(self) -> str:
        """``READY``, ``LOADING`` or ``UNAVAILABLE``."""
        return "READY" if self.model is not None else "LOADING" if self.reason == LOADING else "UNAVAILABLE"


class Repository:
    """The models of a folder. One thread at a time loads; those that look one up wait for none."""

    def __init__(self, options: ServerOptions, compile: Compile = compile_model) -> None:
        """Take the folder that the options name; nothing is loaded yet. Raises as :class:`Folder`."""
        self._folder = Folder(options.folder, follow_links=options.follow_links)
        self._options, self._compile = options, compile
        self._entries: Mapping[Key, Entry] = {}
        self._seen: dict[str, Any] = {}
        self._unloaded: dict[str, Any] = {}
        self._loading, self._numbers, self._ending = threading.Lock(), count(), False
        self._pool = Pool(options.memory_limit, patience=options.timeout)
        self._pool.tell = _evicted

    def get(self, name: str, version: str = "") -> ServedModel:
        """Return the model to run, the newest version that is ready where none is named.

        Raises:
            UnknownModelError: There is not one of that name and version.
            NotReadyError: It cannot be run; the message says why.
        """
        entries = self.entries(name, version)
        ready = [entry.model for entry in entries if entry.model is not None]
        if not ready:
            raise NotReadyError(f"{_what(name, version)} is not ready: {entries[0].reason}")
        return ready[0]

    def has(self, name: str, version: str = "") -> bool:
        """Whether there is a model of that name and version, ready or not."""
        return any(n == name and version in ("", str(v)) for n, v in self._entries)

    def entries(self, name: str, version: str = "") -> list[Entry]:
        """Return the versions of a model, or the one that is named, the newest first; raises as :meth:`get`."""
        found = [e for (n, v), e in self._entries.items() if n == name and version in ("", str(v))]
        if not found:
            raise UnknownModelError(f"there is no {_what(name, version)}")
        return sorted(found, key=lambda entry: -entry.found.version)

    def index(self, *, ready: bool = False) -> list[Entry]:
        """Return all versions that are served or are to be, in order; those that are *ready* alone, where asked."""
        entries = (_told(entry) for _, entry in sorted(self._entries.items()))
        return [entry for entry in entries if entry.model is not None or not ready]

    def load(self, name: str) -> None:
        """Load a model as it lies in the folder now, and serve what it is from then on.

        Raises:
            UnknownModelError: There is none.
            NotReadyError: Its newest version cannot be loaded; the message says why. What was served before still is.
        """
        with self._loading:
            found = self._folder.scan().get(name)
            if found is None:
                raise UnknownModelError(f"there is no {_what(name)} in the folder of models")
            self._unloaded.pop(name, None)
            self._update(name, found, again=True)
            entries = self.entries(name)
        if entries[0].reason:
            raise NotReadyError(f"{_what(name, str(entries[0].found.version))} was not loaded: {entries[0].reason}")

    def unload(self, name: str) -> None:
        """Serve a model no more, until it is loaded again or its files change; returns when its calls are over.

        Raises ``UnknownModelError`` where there is none.
        """
        with self._loading:
            entries = self.entries(name)
            self._unloaded[name] = _stamps(self._folder.scan().get(name, {}))
            for entry in entries:
                self._put(replace(entry, model=None, reason=UNLOADED))

    def refresh(self, *, settled: bool = True) -> None:
        """Look at the folder: load what is new or has changed, and unload what is gone.

        Args:
            settled: Let what has changed since the last look, and may be being written, wait for the next one.
        """
        with self._loading:
            there, changed = self._folder.scan(), list[str]()
            for name, found in sorted(there.items()):
                stamps = _stamps(found)
                stable, self._seen[name] = not settled or self._seen.get(name) == stamps, stamps
                if stable and self._unloaded.get(name) != stamps:
                    self._unloaded.pop(name, None)
                    changed.append(name)
            for name in changed:
                if not self._keys(name):
                    self._put(Entry(newest_first(there[name])[0], None, LOADING))
            for name in changed:
                self._update(name, there[name])
            for name in {n for n, _ in self._entries} - there.keys():
                self._drop(self._keys(name))
                self._seen.pop(name, None)
                self._unloaded.pop(name, None)

    def end(self) -> None:
        """Begin to load no further model; what is being loaded goes on."""
        self._ending = True

    def close(self) -> None:
        """Unload everything, when what runs and what is being loaded is over; nothing is loaded afterwards."""
        self.end()
        with self._loading:
            self._drop(list(self._entries))
            self._pool.close()

    def _update(self, name: str, found: Mapping[int, Found], *, again: bool = False) -> None:
        """Serve the newest versions of *found* that can be; *again*, those too whose files have not changed."""
        served, most = 0, None
        for each in newest_first(found):
            if most is None:
                most = versions_of(each)
            if served == most:
                self._drop([(name, each.version)])
            else:
                served += self._load(each, again=again)
        self._drop([key for key in self._keys(name) if key[1] not in found])

    def _load(self, found: Found, *, again: bool) -> bool:
        """Return whether the version is served, loaded anew where its files have changed."""
        key = (found.name, found.version)
        old = self._entries.get(key)
        if self._ending:
            return False
        if old is not None and old.found.stamp == found.stamp and not again and old.reason not in (UNLOADED, LOADING):
            return old.model is not None
        since = monotonic()
        served = None if old is None else old.model
        if old is None:
            self._put(Entry(found, None, LOADING))
        try:
            with faults(f"loading model {found.name!r}"):
                model = self._made(found)
        except ClgraphError as error:
            fault("load", error, model=found.name, version=found.version, still_served=served is not None)
            self._put(Entry(found, served, text_of(error).replace(f"{self._folder.root}/", "")))
        else:
            self._put(Entry(found, model, ""))
            event("load", model=found.name, version=found.version, seconds=round(monotonic() - since, 3))
        return self._entries[key].model is not None

    def _made(self, found: Found) -> ServedModel:
        if found.fault:
            raise ModelError(found.fault)
        options = options_of(found)
        make = version_compiler(found, options, self._options, self._compile)
        # While a version is loaded anew, what was served before has a place of its own.
        key = f"{found.name}/{found.version} {next(self._numbers)}"
        self._pool.add_made(key, make)
        try:
            seconds, joins = options.timeout or self._options.timeout, options.batching is not None
            return ServedModel(found.name, found.version, self._pool, key, seconds=seconds, joins=joins)
        except ClgraphError:
            self._pool.remove(key)
            raise

    def _keys(self, name: str) -> list[Key]:
        return [key for key in self._entries if key[0] == name]

    def _put(self, entry: Entry) -> None:
        """Replace the version's entry, and close what was served when its calls are over."""
        key = (entry.found.name, entry.found.version)
        old = self._entries.get(key)
        self._entries = {**self._entries, key: entry}
        if old is not None and old.model is not None and old.model is not entry.model:
            self._end(old.model)

    def _drop(self, keys: list[Key]) -> None:
        gone = [self._entries[key].model for key in keys if key in self._entries]
        self._entries = {key: entry for key, entry in self._entries.items() if key not in keys}
        for model in gone:
            if model is not None:
                self._end(model)

    def _end(self, model: ServedModel) -> None:
        model.close()
        event("unload", model=model.name, version=model.version)

    def __iter__(self) -> Iterator[ServedModel]:
        """Return what is ready."""
        return iter([entry.model for entry in self._entries.values() if entry.model is not None])


def _told(entry: Entry) -> Entry:
    """Return *entry* with what the index says of a model that is ready and evicted."""
    evicted = entry.model is not None and not entry.reason and not entry.model.pooled.loaded
    return replace(entry, reason=EVICTED) if evicted else entry


def _evicted(key: str, what: str) -> None:
    """Say that a model was evicted; who loads it says so."""
    name, _, version = key.partition(" ")[0].rpartition("/")
    if what == "evict":
        event("evict", model=name, version=version)


def _stamps(found: Mapping[int, Found]) -> list[Any]:
    return [(each.version, each.stamp) for each in newest_first(found)]


def _what(name: str, version: str = "") -> str:
    return f"version {version} of model {name!r}" if version else f"model {name!r}"
