"""Memory that a run is given, and that its nodes read and write in place: what stays from one run to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clgraph.errors import UnsupportedError
from clgraph.graph.node import Value
from clgraph.graph.program import Program
from clgraph.network.buffer_table import BufferTable
from clgraph.network.tiles import TileExecutor
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory


class KeptMemory:
    """An input of a program that nodes update: its bank stands for the memory that the latest run was given."""

    def __init__(self, value: Value, places: BufferTable, executors: Iterable[TileExecutor]) -> None:
        """Take a value of ``places.borrowed`` and what runs the tile steps that use it."""
        self._places, self._bank, self._executors = places, places.borrowed[value], tuple(executors)
        self._own = places.banks[self._bank]

    @property
    def engine(self) -> Engine:
        """What allocates such memory."""
        return self._places.engine

    @property
    def placement(self) -> str:
        """Where it is."""
        return self._places.placement

    def use(self, memory: Memory) -> None:
        """Let every kernel work on *memory* from now on; kept alive until another takes its place."""
        if memory is self._places.banks[self._bank]:
            return
        self._places.banks[self._bank] = memory
        for executor in self._executors:
            executor.use_bank(self._bank, memory)
        for kernel, argument in self._places.kernels.get(self._bank, ()):
            kernel.set(argument, memory)

    def forget(self, memory: Memory) -> None:
        """Keep *memory* alive no longer."""
        if memory is self._places.banks[self._bank]:
            self.use(self._own)


def is_updated(value: Value) -> bool:
    """Whether a node writes to *value*, an input of its program."""
    return any(slot in node.updates for node, slot in value.uses)


def check_updates(program: Program) -> None:
    """Raise ``UnsupportedError`` where what a node updates is not an input, or is used on several placements."""
    for node in program:
        for slot in node.updates:
            value = node.inputs[slot]
            if value not in program.inputs or len({n.placement for n in value.readers}) > 1:
                raise UnsupportedError(
                    f"node {node.name!r} updates {value.name!r}, which is not an input of the program that one device "
                    "alone uses: place all nodes that update it on the same device"
                )


def kept_memory(
    value: Value, places: Mapping[str, BufferTable], executors: Iterable[TileExecutor]
) -> KeptMemory | None:
    """Return what stands for an input that nodes on a device update; ``None`` for others, and on the host."""
    for there in places.values():
        if value in there.borrowed and is_updated(value):
            return KeptMemory(value, there, [e for e in executors if e.engine is there.engine])
    return None
