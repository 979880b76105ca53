"""Inputs and results that kernels use where the caller has them, from one run to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clgraph.core.aligned import ALIGNMENT
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.network.borrowing import address_of
from clgraph.network.buffer_table import BufferTable
from clgraph.network.kept_memory import is_updated
from clgraph.network.tiles import TileExecutor
from clgraph.runtime.memory import Memory

KNOWN = 4
"""Addresses at which the driver knows a caller's memory: results take turns in two, feeds often come from one."""


class BorrowedBuffer:
    """One such input or result: its bank stands for the caller's array during a run.

    The driver is told an address and no object, so that the bank may go on naming memory that is the caller's no more:
    nothing is launched before the next run has taken its own.
    """

    def __init__(self, value: Value, places: BufferTable, executors: Iterable[TileExecutor]) -> None:
        """Take a value of ``places.borrowed`` and what runs the steps that use it."""
        self._places, self._bank, self._executors = places, places.borrowed[value], tuple(executors)
        self._own = places.banks[self._bank]
        self._view = places.view(value)
        self._nbytes, self._writes = value.layout.nbytes, value.producer is not None
        self._writes_callers = value in places.writes_callers
        self._known: dict[int, Memory] = {}

    def take(self, array: Array, *, new: bool = False) -> bool:
        """Use *array* where it lies, and return whether that is so.

        An input whose address does not suit its elements is copied; a result that is not contiguous, does not start
        at a multiple of ``ALIGNMENT`` or is not made for a caller's array is left to the network's memory.

        Args:
            new: It is an array of :class:`~clgraph.network.result_memory.ResultMemory`, with room behind it.
        """
        flags, address = array.flags, address_of(array)
        if self._writes and not (flags.c_contiguous and address % ALIGNMENT == 0 and (new or self._writes_callers)):
            return False
        if not flags.aligned:
            assert self._view is not None
            self._view[...] = array
            self._use(self._own)
            return False
        memory = self._known.get(address)
        if memory is None:
            memory = self._places.engine.lend_at(address, self._nbytes)
            if len(self._known) == KNOWN:
                del self._known[next(iter(self._known))]
            self._known[address] = memory
        self._use(memory)
        return True

    def give_back(self) -> None:
        """Use the network's own memory."""
        self._use(self._own)

    def _use(self, memory: Memory) -> None:
        if memory is self._places.banks[self._bank]:
            return
        self._places.banks[self._bank] = memory
        for executor in self._executors:
            executor.use_bank(self._bank, memory)


def borrowed_buffer(
    value: Value, places: Mapping[str, BufferTable], executors: Iterable[TileExecutor]
) -> BorrowedBuffer | None:
    """Return what stands for an input or result that its program uses where the caller has it; ``None`` for others."""
    for there in places.values():
        if value in there.borrowed and not is_updated(value):
            return BorrowedBuffer(value, there, [e for e in executors if e.engine is there.engine])
    return None
