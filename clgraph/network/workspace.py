"""Device memory that the networks of a model share, because they run one at a time; and their constants."""

from __future__ import annotations

import threading
from collections.abc import Sequence
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


class Workspace:
    """What the networks of one model share. It keeps no memory of a device alive: that goes with the last network.

    Attributes:
        lock: Held during a run of any of the networks.
        constants: Their constants, shared with the workspaces of clones as well.
        results: Memory of what they have returned.
        laid: By placement, where constants lie that the next one may read, too; shared in the same way.
    """

    def __init__(self, like: Workspace | None = None) -> None:
        """Share nothing that a run writes with *like*, but its constants."""
        self.lock = threading.Lock()
        self.constants: Constants = Constants() if like is None else like.constants
        self.results = ResultMemory()
        self.laid: WeakValueDictionary[str, LaidConstants] = WeakValueDictionary() if like is None else like.laid
        self._held: dict[tuple[str, str], WeakSet[Memory]] = {}

    def arenas(self, placement: str, engine: Engine, sizes: Sequence[int]) -> list[Memory]:
        """Return memory for each of *sizes* bytes on *placement*, no two the same.

        Raises, as all methods do, ``DeviceMemoryError``: The device has no memory left.
        """
        return self._shared(placement, engine, sizes, "the arena of activations")

    def stand_ins(self, placement: str, engine: Engine, sizes: Sequence[int]) -> list[Memory]:
        """Return memory for inputs of *sizes* bytes that cannot be read where the caller has them, no two the same."""
        return self._shared(placement, engine, sizes, "an input that the caller has")

    def scratch(self, placement: str, engine: Engine, library: str, nbytes: int) -> Memory:
        """Return at least *nbytes* of scratch for the workers that run tables of *library*, one step at a time."""
        return self._shared(placement, engine, [nbytes], f"the scratch of {library!r} workers")[0]

    def counters(self, placement: str, engine: Engine, library: str, count: int) -> Memory:
        """Return at least *count* 32-bit counters of tables of *library*: zeros, which is what a launch leaves."""
        return self._shared(placement, engine, [4 * count], f"the counters of {library!r} tiles", zeros=True)[0]

    def _shared(
        self, placement: str, engine: Engine, sizes: Sequence[int], what: str, *, zeros: bool = False
    ) -> list[Memory]:
        known = self._held.setdefault((placement, what), WeakSet())
        taken: list[Memory] = []
        for size in sizes:
            free = [m for m in known if size <= m.nbytes <= LARGEST * size and all(m is not t for t in taken)]
            if free:
                taken.append(min(free, key=lambda m: m.nbytes))
                continue
            wanted = min(int(size * HEADROOM), engine.info.max_alloc) if known else size
            nbytes = max(size, wanted)
            taken.append(engine.upload(np.zeros(nbytes, np.uint8), what) if zeros else engine.allocate(nbytes, what))
            known.add(taken[-1])
        return taken
