"""Inputs and results that kernels use where the caller has them, from one run to the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from clgraph.core.aligned import ALIGNMENT
from clgraph.core.frozen import frozen
from clgraph.network.addresses import address_of

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array
    from clgraph.network.tile_kernels import Banks, TileKernels
    from clgraph.runtime.memory import Memory

KNOWN = 4
"""Addresses at which the driver knows a caller's memory: results take turns in two, feeds often come from one."""


@frozen
class BorrowedSpot:
    """Where such an input or result is.

    Attributes:
        bank: Of *places*; stands for the caller's array.
        view: The memory of its own that it has for arrays that cannot be used.
        writes: It is a result; ``writes_callers``: that may lie in arrays of the caller's, not only in new ones.
    """

    places: Banks
    bank: int
    view: Array | None
    nbytes: int
    writes: bool
    writes_callers: bool


class BorrowedBuffer:
    """One such input or result: its bank stands for the caller's array during a run.

    The driver is told an address and no object, so that the bank may go on naming memory that is the caller's no more:
    nothing is launched before the next run has taken its own.
    """

    def __init__(self, spot: BorrowedSpot, executors: Iterable[TileKernels]) -> None:
        """Take where it is, and what runs the steps that use it."""
        self._spot, self._executors, self._banks = spot, tuple(executors), spot.places.banks
        self._own = self._banks[spot.bank]
        self._known: dict[int, Memory] = {}

    def take(self, array: Array, *, new: bool = False) -> bool:
        """Use *array* where it lies, and return whether that is so.

        An input whose address does not suit its elements is copied; a result that is not contiguous, does not start
        at a multiple of ``ALIGNMENT`` or is not made for a caller's array is left to the network's memory.

        Args:
            new: It is an array of :class:`~clgraph.network.result_memory.ResultMemory`, with room behind it.
        """
        flags, address = array.flags, address_of(array)
        if self._spot.writes and not (
            flags.c_contiguous and address % ALIGNMENT == 0 and (new or self._spot.writes_callers)
        ):
            return False
        if not flags.aligned:
            assert self._spot.view is not None
            self._spot.view[...] = array
            self._use(self._own)
            return False
        memory = self._known.get(address)
        if memory is None:
            memory = self._spot.places.engine.lend_at(address, self._spot.nbytes)
            if len(self._known) == KNOWN:
                del self._known[next(iter(self._known))]
            self._known[address] = memory
        self._use(memory)
        return True

    def give_back(self) -> None:
        """Use the network's own memory."""
        self._use(self._own)

    def _use(self, memory: Memory) -> None:
        bank = self._spot.bank
        if memory is self._banks[bank]:
            return
        self._banks[bank] = memory
        for executor in self._executors:
            executor.use_bank(bank, memory)
