"""Inputs and constants that kernels read where the caller, or the program, has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from clgraph.graph.primitive import Array
from clgraph.graph.program import Node, Program, Value
from clgraph.passes.selection import choice_of, is_in_place
from clgraph.runtime.memory import ALIGNMENT, Memory
from clgraph.selector.plan import Tile
from clgraph.selector.query import DeviceInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clgraph.network.places import Places
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


def _takes_any_alignment(node: Node) -> bool:
    if is_in_place(node):
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


class Loan:
    """One such input: its bank stands for the caller's array while a run reads it."""

    def __init__(self, value: Value, places: Places, executors: Iterable[TileExecutor]) -> None:
        """Take a value of ``places.loans`` and what runs the steps that read it."""
        self._places, self._bank, self._executors = places, places.loans[value], tuple(executors)
        self._own = places.banks[self._bank]
        self._view = places.view(value)

    def take(self, array: Array) -> None:
        """Read a C-contiguous *array* where it lies; copy it where its address does not suit its elements."""
        if array.flags.aligned:
            memory = self._places.engine.lend(array)
        else:
            assert self._view is not None
            self._view[...] = array
            memory = self._own
        self._use(memory)

    def give_back(self) -> None:
        """Forget the caller's array."""
        self._use(self._own)

    def _use(self, memory: Memory) -> None:
        self._places.banks[self._bank] = memory
        for executor in self._executors:
            executor.use_bank(self._bank, memory)
