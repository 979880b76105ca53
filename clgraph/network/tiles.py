"""The table of tile steps that an executor kernel reads: records, descriptors, post-operation lists."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from clgraph.errors import DeviceMemoryError
from clgraph.graph.program import Node
from clgraph.network.places import Places
from clgraph.runtime.engine import BoundKernel, Engine
from clgraph.runtime.memory import Memory
from clgraph.selector.library import BANKS, ENTRY, Library
from clgraph.selector.plan import Tile

_RECORD = "<qqiiii"
"""Descriptor and post-operation list (byte offsets in the table), function, tickets, post-operations, reserved."""
_COUNTER_INTS = 16
"""Counters stand 64 bytes apart, so that no two share a cache line."""


@dataclass
class TileTable:
    """The tile steps of one placement and library, in order."""

    library: Library
    steps: list[tuple[Node, Tile]] = field(default_factory=list)

    def add(self, node: Node, tile: Tile) -> int:
        """Append a step and return its number."""
        self.steps.append((node, tile))
        return len(self.steps) - 1

    def to_bytes(self, places: Places) -> bytes:
        """Return the table with every pointer resolved."""
        start = struct.calcsize(_RECORD) * len(self.steps)
        records, blobs = bytearray(), bytearray()
        for node, tile in self.steps:
            descriptor = start + len(blobs)
            blobs += tile.descriptor.to_bytes(lambda ref, node=node: places.resolve(node, ref))  # type: ignore[misc]
            post = start + len(blobs)
            for step in tile.post:
                blobs += step.to_bytes(lambda ref, node=node: places.resolve(node, ref))  # type: ignore[misc]
            function = self.library.functions.index(tile.function)
            records += struct.pack(_RECORD, descriptor, post, function, tile.tickets, len(tile.post), 0)
        return bytes(records + blobs)


class TileExecutor:
    """A table on a device, and the kernel that runs ranges of it."""

    def __init__(self, table: TileTable, places: Places) -> None:
        """Copy the table, allocate counters and the workers' scratch.

        Raises:
            DeviceMemoryError: The memory is cut into more banks than a library can address.
        """
        engine: Engine = places.engine
        if len(places.banks) > BANKS:
            raise DeviceMemoryError(
                f"the model's memory takes {len(places.banks)} allocations of {engine.info.name} (at most "
                f"{engine.info.max_alloc} bytes each); tile functions address {BANKS}: deny them or use smaller shapes"
            )
        self._engine, self._text, self._library = engine, table.library.text, table.library.name
        self._tickets = [tile.tickets for _, tile in table.steps]
        self.workers = engine.info.workers
        self._scratch_bytes = -(-max(tile.scratch for _, tile in table.steps) // 64) * 64
        self._table = engine.upload(np.frombuffer(table.to_bytes(places), np.uint8), "the table of tiles")
        ints = _COUNTER_INTS * (1 + len(table.steps) * (1 + self.workers))
        self._counters = engine.upload(np.zeros(ints, np.int32), "the counters of tiles")
        self._error = engine.upload(np.zeros(1, np.int32), "the error word of tiles")
        self._scratch = engine.allocate(self._scratch_bytes * self.workers, "the workers' scratch")
        self._banks = [*places.banks, *places.banks[:1] * (BANKS - len(places.banks))]

    def bind(self, first: int, last: int) -> tuple[BoundKernel, tuple[int, ...], tuple[int, ...] | None]:
        """Return the kernel that runs steps *first* to *last* (exclusive), its grid and its group.

        A single step with fewer tickets than workers gets no more workers than tickets.
        """
        workers = min(self.workers, max(self._tickets[first:last]))
        args: list[Memory | np.int32 | np.int64 | np.float32] = [
            self._table,
            np.int32(first),
            np.int32(last),
            self._counters,
            self._scratch,
            np.int64(self._scratch_bytes),
            np.int32(workers),
            self._error,
            *self._banks,
        ]
        kernel = self._engine.kernel(self._text, ENTRY, args, library=True, what=f"library {self._library}")
        return kernel, (workers,), (1,)

    def check(self) -> int:
        """Return 0, or 1 + the step at which a wait between steps was given up; clears the state then."""
        word = np.zeros(1, np.int32)
        self._engine.stream.read(self._error, 0, word)
        if word[0]:
            self._engine.stream.fill(self._error)
            self._engine.stream.fill(self._counters)
            self._engine.stream.finish()
        return int(word[0])
