"""Memory that models may take of each device together, and what each of them takes."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, Self
from weakref import WeakSet

from clgraph.settings import Settings

MakeRoom = Callable[["MemoryBudget", str], bool]
"""Gives back memory of a device for a model that counts in that budget; says whether it did."""


class Taking(Protocol):
    """Protocol of what allocates device memory: the networks of a model, which run one at a time."""

    def taken(self, placement: str) -> int:
        """Return the bytes that it takes, or was promised, constants apart."""

    @property
    def placements(self) -> frozenset[str]:
        """Where it was promised memory."""


class MemoryBudget(int):
    """Bytes that several models may take of each device together: ``clgraph.compile(..., memory_limit=budget)``.

    As a number it is the limit. Parts of a CPU, as streams have them, count as that CPU. What does not fit is refused
    before anything is allocated; a budget without a limit (0) counts alone. Copies in other processes begin anew.

    Attributes:
        make_room: Asked before something is refused, with the budget of who asks, and the device.
    """

    make_room: MakeRoom | None

    def __new__(cls, limit: int | str) -> Self:
        """Take a limit in bytes, or as ``"2 GiB"``; raises ``OptionError`` for what is none."""
        return super().__new__(cls, int(Settings().with_(memory_limit=limit).memory_limit))

    def __init__(self, limit: int | str) -> None:
        self.make_room = None
        self.lock = threading.RLock()
        self._whole: MemoryBudget | None = None
        self._accounts: WeakSet[Account] = WeakSet()
        self._changes = 0

    def __reduce__(self) -> tuple[type[MemoryBudget], tuple[int]]:
        return MemoryBudget, (int(self),)

    def part(self) -> MemoryBudget:
        """Return a budget of the same limit whose models count here, too: it tells what they take."""
        found = MemoryBudget(self)
        found.lock, found._whole = self.lock, self
        return found

    @property
    def chain(self) -> Iterator[MemoryBudget]:
        """The budget itself, and those that it is a part of."""
        found: MemoryBudget | None = self
        while found is not None:
            yield found
            found = found._whole

    @property
    def changes(self) -> int:
        """Number of reservations and releases so far, here or in a budget that this is a part of."""
        return sum(budget._changes for budget in self.chain)

    def changed(self) -> None:
        """Count a reservation or a release."""
        with self.lock:
            for budget in self.chain:
                budget._changes += 1

    @property
    def taken(self) -> Mapping[str, int]:
        """Bytes that are taken, or promised to programs that are being made, by device."""
        with self.lock:
            found: dict[str, int] = {}
            for account in self._accounts:
                for device, nbytes in account.by_device().items():
                    found[device] = found.get(device, 0) + nbytes
            return dict(sorted(found.items()))

    def beside(self, account: Account, device: str) -> int:
        """Return the bytes of *device* that others than *account* take."""
        return sum(other.by_device().get(device, 0) for other in self._accounts if other is not account)

    def make_room_on(self, device: str) -> bool:
        """Ask for memory of *device* to be released for a model that counts here; return whether any was."""
        return any(budget.make_room(self, device) for budget in self.chain if budget.make_room is not None)

    def open(self, account: Account) -> None:
        """Count *account* from now on."""
        with self.lock:
            for budget in self.chain:
                budget._accounts.add(account)


class Account:
    """The memory of a model, its clones and its reshaped models, which share constants.

    Attributes:
        budget: What it is counted in; ``None`` where nobody asked for a limit.
        lock: Held while its memory is handed out.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.budget: MemoryBudget | None = None
        self.lock = threading.RLock()
        self.members: WeakSet[Taking] = WeakSet()
        self.constants: dict[str, int] = {}

    def keep_within(self, limit: int) -> None:
        """Keep within *limit*, a budget that others may share or a number of bytes; 0 for any number."""
        if self.budget is None and (limit or isinstance(limit, MemoryBudget)):
            self.budget = limit if isinstance(limit, MemoryBudget) else MemoryBudget(limit)
            self.budget.open(self)

    def by_placement(self) -> dict[str, int]:
        """Return the bytes that are taken of each placement; constants as long as a member takes anything there."""
        with self.lock:
            members = list(self.members)
            placements = sorted(frozenset().union(*(m.placements for m in members)))
            return {p: self.constants.get(p, 0) + sum(m.taken(p) for m in members) for p in placements}

    def by_device(self) -> dict[str, int]:
        """Return the bytes that are taken of each device."""
        found: dict[str, int] = {}
        for placement, nbytes in self.by_placement().items():
            found[device_of(placement)] = found.get(device_of(placement), 0) + nbytes
        return found


def device_of(placement: str) -> str:
    """Return the device of a placement, which may be a part of it (``pocl:0/1of2``) or a caller's queue there."""
    return re.split("[/@]", placement, maxsplit=1)[0]


def with_one_budget(options: Settings) -> Settings:
    """Return *options* whose limit is a budget: one for all that is compiled under them, such as stages and streams."""
    limit = options.memory_limit
    if not limit or isinstance(limit, MemoryBudget):
        return options
    return options.with_(memory_limit=MemoryBudget(limit))
