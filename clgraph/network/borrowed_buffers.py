"""Inputs and results that kernels use where the caller has them, from one run to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clgraph.core.aligned import ALIGNMENT
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.network.buffer_table import BufferTable
from clgraph.network.kept_memory import is_updated
from clgraph.network.tiles import TileExecutor
from clgraph.runtime.memory import Memory


class BorrowedBuffer:
    """One such input or result: its bank stands for the caller's array during a run."""

    def __init__(self, value: Value, places: BufferTable, executors: Iterable[TileExecutor]) -> None:
        """Take a value of ``places.borrowed`` and what runs the steps that use it."""
        self._places, self._bank, self._executors = places, places.borrowed[value], tuple(executors)
        self._own = places.banks[self._bank]
        self._view = places.view(value)
        self._writes = value.producer is not None

    def take(self, array: Array) -> bool:
        """Use *array* where it lies, and return whether that is so.

        An input whose address does not suit its elements is copied; a result that is not contiguous or does not start
        at a multiple of ``ALIGNMENT`` is left in the network's memory.
        """
        flags = array.flags
        if self._writes and not (flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0):
            self._use(self._own)
            return False
        if not flags.aligned:
            assert self._view is not None
            self._view[...] = array
            self._use(self._own)
            return False
        self._use(self._places.engine.lend(array, writable=self._writes))
        return True

    def give_back(self) -> None:
        """Forget the caller's array."""
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
