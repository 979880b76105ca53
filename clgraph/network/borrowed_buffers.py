"""Inputs, results and constants that kernels use where the caller, or the program, has them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from clgraph.graph.primitive import Array
from clgraph.graph.program import Node, Program, Value
from clgraph.passes.selection import choice_of
from clgraph.runtime.memory import ALIGNMENT, Memory
from clgraph.selector.plan import Tile
from clgraph.selector.query import DeviceInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clgraph.network.buffer_table import BufferTable
    from clgraph.network.tiles import TileExecutor

LEAST_BYTES = 1 << 15
"""Smaller inputs are copied sooner than the driver is told where they are."""


def readable_in_place(program: Program, placement: str, info: DeviceInfo) -> list[Value]:
    """Return the inputs of *program* that its nodes on *placement* can read where the caller has them.

    The device works on the host's memory, the input is no output, and all that reads it are tile functions on
    *placement* that take any alignment: no node, then, whose result shares its memory.
    """
    if "host_memory" not in info.features:
        return []
    return [
        v
        for v in program.inputs
        if v.layout.nbytes >= LEAST_BYTES
        and v.readers
        and v.buffer is not None
        and v.buffer.placement == placement
        and not program.is_output(v)
        and all(node.placement == placement and _takes_any_alignment(node) for node in v.readers)
    ]


def writable_in_place(program: Program, placement: str, info: DeviceInfo) -> list[Value]:
    """Return the results of *program* that its nodes on *placement* can write where the caller wants them.

    The device works on the host's memory, the result is one output, no node reads it, nothing shares its memory, it is
    made by tile functions on *placement*, and it ends with a whole vector.
    """
    if "host_memory" not in info.features:
        return []
    sharing = Counter(v.buffer for v in program.values if v.buffer is not None)
    named = Counter(v for _, v in program.outputs)
    return [
        v
        for v in named
        if v.layout.nbytes >= LEAST_BYTES
        and v.layout.nbytes % ALIGNMENT == 0
        and v.producer is not None
        and not v.readers
        and named[v] == 1
        and v.buffer is not None
        and sharing[v.buffer] == 1
        and v.buffer.placement == v.producer.placement == placement
        and _is_tiles(v.producer)
    ]


def _is_tiles(node: Node) -> bool:
    return not node.in_place and all(isinstance(s, Tile) for s in choice_of(node).plan().steps)


def _takes_any_alignment(node: Node) -> bool:
    if node.in_place:
        return False
    return all(isinstance(s, Tile) and type(s.descriptor).any_alignment for s in choice_of(node).plan().steps)


def stays(value: Value) -> bool:
    """Whether kernels can read a constant where it lies: a large read-only array that suits them in address and end."""
    array = value.constant
    if array is None or array.nbytes < LEAST_BYTES or array.flags.writeable:
        return False
    if not array.flags.c_contiguous or not array.flags.aligned:
        return False
    if array.ctypes.data % ALIGNMENT == 0 and _bytes_behind(array) >= ALIGNMENT:
        return True
    return value.layout.is_dense_plain and all(s == 0 and _takes_any_alignment(n) for n, s in value.uses)


def _bytes_behind(array: Array) -> int:
    """Return how many bytes behind *array* belong to the array that it is a view of."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return root.ctypes.data + root.nbytes - array.ctypes.data - array.nbytes if root.flags.c_contiguous else 0


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
