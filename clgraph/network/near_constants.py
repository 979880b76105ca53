"""Copies of mapped weights to large pages, made when a model is run more than once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from clgraph.core.log import Log
from clgraph.core.mapped import MappedFile, files_of, place_in
from clgraph.runtime.at_exit import GATE

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array

LEAST_BYTES = 1 << 22
"""What is worth it: two large pages of most processors."""
MOST_BYTES = 1 << 30
"""Of the weights of one model: a GiB takes .15 s to copy, and memory that other processes do not share."""

_log = Log(__name__)

_Part = tuple[MappedFile, int, int]


class NearConstants:
    """Brings weights out of files, whose small pages kernels that walk through all of them are slower to read.

    Each page of 4 KiB has an address of its own to be translated, and ends what the core reads ahead. With weights in
    pages of 2 MiB, MiniLM with 12 tokens takes 0.78 of the time, ResNet-50 0.95 (Zen 4).

    The first run reads them in their file: to copy them takes 22 ms each 100 MB, which a process that runs a model once
    never gets back. From the second on a thread copies them while they are read, and they keep their addresses.
    """

    def __init__(self) -> None:
        self._new: list[Sequence[_Part]] = []
        self._asked: set[_Part] = set()
        self._waiting: list[_Part] = []
        self._taken, self._runs = 0, 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def ask(self, arrays: Iterable[Array]) -> None:
        """Have *arrays* that lie in mapped files copied, where they are many and the system has large pages."""
        self.ask_places([(file, *place_in(file, array)) for array in arrays for file in files_of([array])])

    def ask_places(self, parts: Sequence[_Part]) -> None:
        """Have *parts* of files copied, as :meth:`ask`; whether that is worth it is looked at before the second run."""
        if parts:
            with self._lock:
                self._new.append(parts)

    def _look(self) -> None:
        """Take of what was asked for what is worth it; with the lock."""
        from clgraph.core.large_pages import has_large_pages

        asked, self._new = self._new, []
        for parts in asked:
            new = [part for part in dict.fromkeys(parts) if part not in self._asked]
            size = sum(end - begin for _, begin, end in new)
            if LEAST_BYTES <= size <= MOST_BYTES - self._taken and has_large_pages():
                self._asked.update(new)
                self._waiting += new
                self._taken += size

    def places_in(self, file: MappedFile) -> list[tuple[int, int]]:
        """Return where in *file* what was asked for begins and ends."""
        with self._lock:
            self._look()
            return sorted((begin, end) for asked, begin, end in self._asked if asked is file)

    def begin(self) -> None:
        """Count a run, and start copying at the second."""
        self._runs += 1
        if self._runs > 1 and (self._new or self._waiting):
            with self._lock:
                self._look()
                if not self._waiting:
                    return
                parts, self._waiting = self._waiting, []
                before = self._thread
                self._thread = threading.Thread(target=_replace, args=(parts, before), name="clgraph-near", daemon=True)
                self._thread.start()

    def finish(self) -> None:
        """Wait for the copies that were started."""
        if self._thread is not None:
            self._thread.join()


def _replace(parts: Iterable[_Part], before: threading.Thread | None) -> None:
    from clgraph.core.large_pages import chunks, replace

    if before is not None:
        before.join()
    asked: dict[MappedFile, list[tuple[int, int]]] = {}
    for part in parts:
        asked.setdefault(part[0], []).append(part[1:])
    wanted = [(file, *chunk) for file, of_it in asked.items() for chunk in chunks(file, of_it)]
    for file, begin, end in wanted:
        # A process that ends waits for one chunk.
        with GATE:
            if not replace(file, begin, end):
                _log.info("%s stays in small pages", file.path)
                return
