"""Detection of stray writes: changes of memory other than a node's results and scratch."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clgraph.errors import ProgramError
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node
from clgraph.network.buffer_table import BufferTable
from clgraph.runtime.memory import Memory
from clgraph.runtime.stream import Step

_Bytes = NDArray[np.uint8]


@dataclass
class StrayWrites:
    """Compares every byte of the arenas before and after each node, and of the constants before and after a run.

    Memory of callers is not looked at: programs are to be bound so that no result lies there.
    """

    places: Mapping[str, BufferTable]
    _arenas: dict[str, list[_Bytes]] = field(default_factory=dict)
    _constants: dict[str, list[_Bytes]] = field(default_factory=dict)

    def begin(self) -> None:
        """Look at the constants."""
        self._constants = {place: _read(table, table.constant_banks) for place, table in self.places.items()}

    def around(self, node: Node, work: Sequence[Step]) -> list[Step]:
        """Return the steps *work* of *node*, each waited for, then one that raises ``ProgramError`` for strays."""
        return [self._look, *work, functools.partial(self._compare, node)] if work else []

    def end(self) -> None:
        """Raise ``ProgramError`` where constants are not as at the begin."""
        before, self._constants = self._constants, {}
        for place, table in self.places.items():
            now = _read(table, table.constant_banks)
            if count := sum(np.count_nonzero(a != b) for a, b in zip(before[place], now, strict=True)):
                raise ProgramError(
                    f"{count} bytes of the constants of {place} changed in a run: a kernel writes outside of its "
                    f"results; clgraph compare --bisect tries one after the other"
                )

    def _look(self) -> None:
        self._arenas = {place: _read(table, table.arena_banks) for place, table in self.places.items()}

    def _compare(self, node: Node) -> None:
        owned = {v.buffer for v in node.outputs if v.buffer is not None} | set(node.scratch)
        for place, table in self.places.items():
            now = _read(table, table.arena_banks)
            for number, (old, new) in enumerate(zip(self._arenas[place], now, strict=True)):
                changed = old != new
                for buffer in owned:
                    if buffer.placement == place:
                        _forget(changed, buffer, number * table.arena_bank)
                if (where := np.flatnonzero(changed)).size:
                    kernel = getattr(node.choice, "name", "host.reference")
                    raise ProgramError(
                        f"node {node.name!r}: {kernel} writes {where.size} bytes outside of its results and scratch "
                        f"memory, the first at byte {number * table.arena_bank + where[0]} of the arena of {place}: "
                        f"a fault of this kernel, without which --deny-kernel compiles"
                    )


def _read(table: BufferTable, banks: Sequence[Memory]) -> list[_Bytes]:
    """Return the bytes of *banks* once nothing is in flight."""
    stream, found = table.engine.stream, [np.empty(bank.nbytes, np.uint8) for bank in banks]
    stream.finish()
    for bank, held in zip(banks, found, strict=True):
        stream.read(bank, 0, held)
    stream.finish()
    return found


def _forget(changed: NDArray[np.bool_], buffer: Buffer, start: int) -> None:
    """Take the bytes of *buffer* out of *changed*, a bank that begins at byte *start* of the arena."""
    first = (buffer.offset or 0) - start
    changed[max(first, 0) : max(first + buffer.nbytes, 0)] = False
