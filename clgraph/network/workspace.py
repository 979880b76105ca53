"""Device memory that the networks of a model share, because they run one at a time; and their constants."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np

from clgraph.network.budget import Account
from clgraph.network.constants import Constants
from clgraph.network.result_memory import ResultMemory

if TYPE_CHECKING:
    from clgraph.network.laid_constants import KnownPlaces
    from clgraph.runtime.engine import Engine
    from clgraph.runtime.memory import Memory

LARGEST = 4
"""Memory is shared by what needs at least one part in so many of it: a large shape met once does not stay."""

HEADROOM = 1.5
"""Where some memory was too small, the next one is larger by this factor than what is needed."""


ARENA, STAND_IN = "the arena of activations", "an input that the caller has"


class Workspace:
    """Device memory that the networks of one model share; it is released with the last network, not with the workspace.

    Attributes:
        lock: Held during a run of any of the networks.
        constants: Their constants, shared with the workspaces of clones as well.
        results: Memory of what they have returned.
        account: What they and those of clones take of devices.
    """

    def __init__(self, like: Workspace | None = None) -> None:
        """Share nothing that a run writes with *like*, but its constants."""
        self.lock = threading.Lock()
        self.constants: Constants = Constants() if like is None else like.constants
        self.results = ResultMemory()
        self._laid: dict[str, KnownPlaces] = {} if like is None else like._laid
        self._held: dict[tuple[str, str], WeakSet[Memory]] = {}
        self._promised: dict[str, int] = {}
        self.account: Account = Account() if like is None else like.account
        with self.account.lock:
            self.account.members.add(self)

    def laid(self, placement: str) -> KnownPlaces:
        """Return where on *placement* constants lie that the next network may read, too; shared with clones."""
        from clgraph.network.laid_constants import KnownPlaces

        return self._laid.setdefault(placement, KnownPlaces())

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
        with self.account.lock:
            known = self._held.setdefault((placement, what), WeakSet())
            taken: list[Memory] = []
            for size in sizes:
                found = _fitting(known, size, taken)
                if found is None:
                    wanted = int(size * HEADROOM) if known and self.account.budget is None else size
                    nbytes = max(size, min(wanted, engine.info.max_alloc))
                    zeroed = np.zeros(nbytes if zeros else 0, np.uint8)
                    found = engine.upload(zeroed, what) if zeros else engine.allocate(nbytes, what)
                    known.add(found)
                taken.append(found)
            return taken

    @property
    def placements(self) -> frozenset[str]:
        """Where networks were promised memory."""
        return frozenset(self._promised)

    def taken(self, placement: str) -> int:
        """Return the bytes of *placement* that networks have, or were promised, constants apart."""
        with self.account.lock:
            return max(self._promised.get(placement, 0), self.beside(placement, {}))

    def promise(self, placement: str, nbytes: int, constants: int, wanted: Mapping[str, Sequence[int]]) -> None:
        """Note that a further network will take *nbytes* of *placement*, its share of *wanted* included."""
        with self.account.lock:
            self._promised[placement] = nbytes + self.beside(placement, wanted)
            known = self.account.constants
            known[placement] = max(constants, known.get(placement, 0))

    def give_back(self) -> None:
        """Withdraw all reservations and drop the memory of results; called when no networks are left."""
        with self.account.lock:
            self._promised.clear()
            self.results = ResultMemory()
        if self.account.budget is not None:
            self.account.budget.changed()

    def beside(self, placement: str, wanted: Mapping[str, Sequence[int]]) -> int:
        """Return the bytes of *placement* that stay taken here beside a further network, constants apart.

        Args:
            wanted: What the network will ask for, by use: it takes what there is where that fits.
        """
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
