"""Device memory that the networks of a model share: activations of those that run one at a time, and constants."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable

import numpy as np

from clgraph.graph.primitive import Array
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory

LARGEST = 4
"""An arena is shared by what needs at least one part in so many of it: a large shape met once does not stay."""

HEADROOM = 1.5
"""Where one arena was too small, the next one is larger by this factor than what is needed."""


class Workspace:
    """What the networks of one model share. It keeps nothing alive: memory goes with the last network that uses it.

    Attributes:
        lock: Held during a run of any of the networks.
        constants: Their constants, shared with the workspaces of clones as well.
    """

    def __init__(self, like: Workspace | None = None) -> None:
        """Share no activations with *like*, but its constants."""
        self.lock = threading.Lock()
        self.constants: Constants = Constants() if like is None else like.constants
        self._arenas: dict[str, weakref.WeakSet[Memory]] = {}

    def arenas(self, placement: str, engine: Engine, sizes: Iterable[int]) -> list[Memory]:
        """Return memory for each of *sizes* bytes on *placement*, no two the same.

        Raises:
            DeviceMemoryError: The device has no memory left.
        """
        known = self._arenas.setdefault(placement, weakref.WeakSet())
        taken: list[Memory] = []
        for size in sizes:
            free = [m for m in known if size <= m.nbytes <= LARGEST * size and all(m is not t for t in taken)]
            if free:
                taken.append(min(free, key=lambda m: m.nbytes))
                continue
            wanted = min(int(size * HEADROOM), engine.info.max_alloc) if known else size
            taken.append(engine.allocate(max(size, wanted), "the arena of activations"))
            known.add(taken[-1])
        return taken


class Constants:
    """Copies of constants on devices that have memory of their own, one a constant and placement."""

    def __init__(self) -> None:
        self._copies: dict[tuple[str, int], tuple[weakref.ref[Array], weakref.ref[Memory]]] = {}
        self._lock = threading.Lock()

    def copy(self, placement: str, engine: Engine, array: Array, what: str) -> Memory:
        """Return the memory on *placement* that holds *array*; raises ``DeviceMemoryError``."""
        with self._lock:
            self._copies = {k: (a, m) for k, (a, m) in self._copies.items() if m() is not None and a() is not None}
            source, held = self._copies.get((placement, id(array)), (None, None))
            memory = held() if held is not None and source is not None and source() is array else None
            if memory is None:
                memory = engine.upload(np.ascontiguousarray(array), what)
                self._copies[placement, id(array)] = weakref.ref(array), weakref.ref(memory)
            return memory
