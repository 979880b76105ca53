"""Physical memory: buffers that values share, and the arenas that buffers are packed into."""

from __future__ import annotations

from dataclasses import field
from weakref import WeakKeyDictionary

from clgraph.core.frozen import frozen, mutable


@mutable(weak=True)
class Buffer:
    """One piece of device memory that holds one value, or several at offsets (in-place concat, crop, reshape).

    Attributes:
        nbytes: Size, halos and tail lanes included.
        offset: Bytes from the start of its arena, once planned; a multiple of 64.
        placement: The device whose arena holds it.
        first, last: Positions in the execution order of the first write and the last read.
    """

    name: str
    nbytes: int
    offset: int | None = None
    first: int = 0
    last: int = 0
    placement: str = ""
    # Made where there are any: each is eight objects for Python's collector.
    _conflicts: WeakKeyDictionary[Buffer, None] | None = field(default=None, init=False)

    @property
    def conflicts(self) -> tuple[Buffer, ...]:
        """What it may not share memory with although their positions do not overlap."""
        return () if self._conflicts is None else tuple(self._conflicts)

    @property
    def has_conflicts(self) -> bool:
        """Whether there is any such buffer."""
        return bool(self._conflicts)

    def add_conflict(self, other: Buffer) -> None:
        """Let neither share memory with the other; they name each other weakly."""
        for one, two in ((self, other), (other, self)):
            if one._conflicts is None:
                one._conflicts = WeakKeyDictionary()
            one._conflicts[two] = None

    def clear_conflicts(self) -> None:
        """Forget what it may not share memory with."""
        self._conflicts = None

    def meets(self, other: Buffer) -> bool:
        """Whether both may be alive at the same time, so that they cannot share memory."""
        overlap = self.first <= other.last and other.first <= self.last
        return self.placement == other.placement and (overlap or other in (self._conflicts or ()))

    def __repr__(self) -> str:
        return f"<buffer {self.name} {self.nbytes} B @{self.offset}>"


@frozen
class Arena:
    """The memory of one placement.

    Attributes:
        nbytes: Bytes needed by the packed buffers.
        lower_bound: The most bytes alive at once, which no packing can beat.
        unshared: What the buffers would take without sharing.
    """

    nbytes: int
    lower_bound: int
    unshared: int
