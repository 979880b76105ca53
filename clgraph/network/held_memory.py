"""Memory of a model that no network has, such as the caches of sessions: it counts in the budget while it lives."""

from __future__ import annotations

from collections import Counter
from weakref import WeakSet

from clgraph.errors import MemoryLimitError
from clgraph.network.budget import Account, MemoryBudget, device_of
from clgraph.network.memory_need import Excess, MemoryNeed, admitted, spelled, spelled_up
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory


class HeldMemory:
    """Allocates it within the budget of a model. Whoever has some of it keeps this alive.

    It has an account of its own, because it may outlive the networks and their constants.
    """

    def __init__(self, like: Account) -> None:
        """Count where *like* does, which may know its budget only later."""
        self._like, self._account = like, Account()
        self._held: dict[str, WeakSet[Memory]] = {}
        self._promised: Counter[str] = Counter()
        self._account.members.add(self)

    def allocate(self, placement: str, engine: Engine, nbytes: int, what: str) -> Memory:
        """Return memory of *engine* for *what*, which messages name.

        Raises:
            MemoryLimitError: The budget has no room for it, and nobody makes any.
            DeviceMemoryError: The device has no memory left.
        """
        budget, need = self._like.budget, MemoryNeed(placement, 0, 0, nbytes)
        if budget is None:
            return engine.allocate(nbytes, what)
        self._account.keep_within(budget)

        def promise() -> None:
            self._promised[placement] += nbytes

        admitted(budget, lambda each: self._excess(each, need), promise, lambda excess: _refused(what, excess))
        try:
            found = engine.allocate(nbytes, what)
            self._held.setdefault(placement, WeakSet()).add(found)
        finally:
            with self._account.lock:
                self._promised[placement] -= nbytes
            budget.changed()
        return found

    @property
    def placements(self) -> frozenset[str]:
        """Where there is some of it."""
        return frozenset(filter(self.taken, list(self._promised)))

    def taken(self, placement: str) -> int:
        """Return the bytes of *placement* that there are, or that were promised."""
        with self._account.lock:
            return self._promised[placement] + sum(m.nbytes for m in self._held.get(placement, ()))

    def _excess(self, budget: MemoryBudget, need: MemoryNeed) -> Excess | None:
        device = device_of(need.placement)
        own = self._account.by_device().get(device, 0)
        found = Excess(budget, need, own, budget.beside(self._account, device))
        return found if budget and found.exists else None


def _refused(what: str, excess: Excess) -> MemoryLimitError:
    need, limit = excess.need, int(excess.budget)
    beside = f", beside {spelled(excess.beside)} of what the model and others take" if excess.beside else ""
    found = f"{what} take {spelled(need.total)} on {need.placement}{beside}, and memory_limit allows {spelled(limit)}"
    ways = ["fewer or shorter sessions", f"a memory_limit of {spelled_up(need.total + excess.beside)}"]
    return MemoryLimitError(found, ways, limit - excess.beside, device_of(need.placement))
