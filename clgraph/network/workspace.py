"""Device memory that the networks of a model share, because they run one at a time; and their constants."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from clgraph.network.constants import Constants
from clgraph.network.laid_constants import LaidConstants
from clgraph.network.result_memory import ResultMemory
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory

LARGEST = 4
"""Memory is shared by what needs at least one part in so many of it: a large shape met once does not stay."""

HEADROOM = 1.5
"""Where some memory was too small, the next one is larger by this factor than what is needed."""


ARENA, STAND_IN = "the arena of activations", "an input that the caller has"


class Workspace:
    """What the networks of one model share. It keeps no memory of a device alive: that goes with the last network.

    Attributes:
        lock: Held during a run of any of the networks.
        constants: Their constants, shared with the workspaces of clones as well.
        results: Memory of what they have returned.
        laid: By placement, where constants lie that the next one may read, too; shared in the same way.
        memory_limit: Bytes that they and those of clones may take of each device together; 0 for any number.
        admitting: Held while it is decided whether a further network fits into that.
    """

    def __init__(self, like: Workspace | None = None) -> None:
        """Share nothing that a run writes with *like*, but its constants."""
        self.lock = threading.Lock()
        self.constants: Constants = Constants() if like is None else like.constants
        self.results = ResultMemory()
        self.laid: WeakValueDictionary[str, LaidConstants] = WeakValueDictionary() if like is None else like.laid
        self._held: dict[tuple[str, str], WeakSet[Memory]] = {}
        self.memory_limit: int = 0 if like is None else like.memory_limit
        self.admitting: threading.RLock = threading.RLock() if like is None else like.admitting
        self._promised: dict[str, int] = {}
        self._family: WeakSet[Workspace] = WeakSet() if like is None else like._family
        with self.admitting:
            self._family.add(self)

    def arenas(self, placement: str, engine: Engine, sizes: Sequence[int]) -> list[Memory]:
        """Return memory for each of *sizes* bytes on *placement*, no two the same.

        Raises, as all methods do, ``DeviceMemoryError``: The device has no memory left.
        """
        return self._shared(placement, engine, sizes, ARENA)

    def stand_ins(self, placement: str, engine: Engine, sizes: Sequence[int]) -> list[Memory]:
        """Return memory for inputs of *sizes* bytes that cannot be read where the caller has them, no two the same."""
        return self._shared(placement, engine, sizes, STAND_IN)

    def scratch(self, placement: str, engine: Engine, library: str, nbytes: int) -> Memory:
        """Return at least *nbytes* of scratch for the workers that run tables of *library*, one step at a time."""
        return self._shared(placement, engine, [nbytes], scratch_of(library))[0]

    def counters(self, placement: str, engine: Engine, library: str, count: int) -> Memory:
        """Return at least *count* 32-bit counters of tables of *library*: zeros, which is what a launch leaves."""
        return self._shared(placement, engine, [4 * count], f"the counters of {library!r} tiles", zeros=True)[0]

    def _shared(
        self, placement: str, engine: Engine, sizes: Sequence[int], what: str, *, zeros: bool = False
    ) -> list[Memory]:
        with self.admitting:
            known = self._held.setdefault((placement, what), WeakSet())
            taken: list[Memory] = []
            for size in sizes:
                found = _fitting(known, size, taken)
                if found is None:
                    wanted = int(size * HEADROOM) if known and not self.memory_limit else size
                    nbytes = max(size, min(wanted, engine.info.max_alloc))
                    zeroed = np.zeros(nbytes if zeros else 0, np.uint8)
                    found = engine.upload(zeroed, what) if zeros else engine.allocate(nbytes, what)
                    known.add(found)
                taken.append(found)
            return taken

    def beside(self, placement: str, wanted: Mapping[str, Sequence[int]]) -> int:
        """Return the bytes of *placement* that stay taken beside a further network, constants apart.

        Args:
            wanted: What the network will ask for, by use: it takes what there is where that fits.
        """
        with self.admitting:
            return self._beside(placement, wanted) + sum(
                max(other._promised.get(placement, 0), other._beside(placement, {}))
                for other in self._family
                if other is not self
            )

    def promise(self, placement: str, nbytes: int, wanted: Mapping[str, Sequence[int]]) -> None:
        """Note that a further network will take *nbytes* of *placement*, its share of *wanted* included."""
        with self.admitting:
            self._promised[placement] = nbytes + self._beside(placement, wanted)

    def _beside(self, placement: str, wanted: Mapping[str, Sequence[int]]) -> int:
        nbytes = 0
        for (where, what), known in self._held.items():
            if where == placement:
                nbytes += sum(memory.nbytes for memory in known)
                taken: list[Memory] = []
                for size in wanted.get(what, ()):
                    if (found := _fitting(known, size, taken)) is not None:
                        taken.append(found)
                        nbytes -= size
        return nbytes


def scratch_of(library: str) -> str:
    """Return what the scratch of the workers that run tables of *library* is called."""
    return f"the scratch of {library!r} workers"


def _fitting(known: Iterable[Memory], size: int, taken: Sequence[Memory]) -> Memory | None:
    """Return the smallest of *known* that serves *size* bytes and is not *taken*."""
    free = [m for m in known if size <= m.nbytes <= LARGEST * size and all(m is not t for t in taken)]
    return min(free, key=lambda m: m.nbytes, default=None)
