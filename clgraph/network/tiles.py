"""The table of tile steps that an executor kernel reads: records, descriptors, post-operation lists."""

from __future__ import annotations

import struct
from dataclasses import field

import numpy as np

from clgraph.core.frozen import mutable
from clgraph.errors import DeviceMemoryError
from clgraph.graph.node import Node
from clgraph.graph.primitive import Array
from clgraph.network.buffer_table import BufferTable, beyond_32_bits
from clgraph.runtime.engine import BoundKernel, Engine
from clgraph.runtime.executor import FIRST_BANK, RECORD, SPINS, TIMES, arguments, counter_count
from clgraph.runtime.memory import Memory
from clgraph.selector.library import BANKS, ENTRY, Library
from clgraph.selector.plan import Tile

_RECORD = struct.Struct(RECORD)

INTERRUPTED = 2**31 - 1
"""In the error word: the host wants the workers to leave. No table has as many steps."""


@mutable
class TileTable:
    """The tile steps of one subgraph and library, in order.

    Attributes:
        steps: Empty once the table is on its device and its network keeps no nodes.
    """

    library: Library
    steps: list[tuple[Node, Tile]] = field(default_factory=list)
    _names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def add(self, node: Node, tile: Tile) -> int:
        """Append a step and return its number."""
        self.steps.append((node, tile))
        return len(self.steps) - 1

    def lighten(self) -> None:
        """Forget the steps, but for the names of their nodes and functions: tuples of text cost a collector nothing."""
        self._names = tuple([node.name for node, _ in self.steps]), tuple([tile.function for _, tile in self.steps])
        self.steps = []

    def what(self, step: int) -> str:
        """Return the node and the tile function of a step, in words."""
        if self.steps:
            node, tile = self.steps[step]
            return f"node {node.name!r} ({tile.function})"
        nodes, functions = self._names
        return f"node {nodes[step]!r} ({functions[step]})"

    def to_bytes(self, places: BufferTable) -> bytes:
        """Return the table with every pointer resolved."""
        start = _RECORD.size * len(self.steps)
        numbers = {function: number for number, function in enumerate(self.library.functions)}
        records, blobs = bytearray(), bytearray()
        of, pointers = None, None
        for node, tile in self.steps:
            if pointers is None or node is not of:
                of, pointers = node, places.pointers(node)
            try:
                descriptor = start + len(blobs)
                blobs += tile.descriptor.to_bytes(pointers)
                post = start + len(blobs)
                for step in tile.post:
                    blobs += step.to_bytes(pointers)
                function = numbers[tile.function]
                records += _RECORD.pack(descriptor, post, function, tile.tickets, len(tile.post), 0)
            except (OverflowError, struct.error) as error:
                raise beyond_32_bits(node, error) from error
        return bytes(records + blobs)


class TileExecutor:
    """A table on a device, and the kernel that runs ranges of it.

    Attributes:
        workers: Work-groups that run tickets.
        word: The error word, 0 where nothing went wrong; on a device with memory of its own, as read last.
        table, engine: What it runs, and where.
    """

    def __init__(self, table: TileTable, places: BufferTable) -> None:
        """Copy the table; allocate counters and the workers' scratch, as far as other tables have none to share.

        Raises:
            DeviceMemoryError: The memory is cut into more banks than a library can address.
        """
        engine: Engine = places.engine
        if len(places.banks) > BANKS:
            raise DeviceMemoryError(
                f"the model's memory takes {len(places.banks)} allocations of {engine.info.name} (at most "
                f"{engine.info.max_alloc} bytes each); tile functions address {BANKS}: deny them or use smaller shapes"
            )
        self.table, self.workers = table, engine.info.workers
        self.engine, self._text, self._library = engine, table.library.text, table.library.name
        self._tickets = [tile.tickets for _, tile in table.steps]
        self._scratch_bytes = -(-max([tile.scratch for _, tile in table.steps]) // 64) * 64
        self._table = engine.upload(np.frombuffer(table.to_bytes(places), np.uint8), "the table of tiles")
        shared, count = places.workspace, counter_count(len(table.steps), self.workers)
        self._counters = shared.counters(places.placement, engine, self._library, count)
        scratch = self._scratch_bytes * self.workers
        self._scratch = shared.scratch(places.placement, engine, self._library, scratch)
        self._error = engine.upload(np.zeros(1, np.int32), "the error word of tiles")
        held = self._error.array
        self.word = np.zeros(1, np.int32) if held is None else held[:4].view(np.int32)
        self._banks = places.banks
        self._times: Memory | None = None
        self._kernels: dict[tuple[int, int, bool], BoundKernel] = {}
        self._users: dict[int, list[int]] = {bank: [] for bank in places.borrowed.values()}
        if self._users:
            for i, (node, _) in enumerate(table.steps):
                for bank in {places.borrowed[v] for v in (*node.inputs, *node.outputs) if v in places.borrowed}:
                    self._users[bank].append(i)

    @property
    def nbytes(self) -> int:
        """Bytes of the device that are its alone."""
        own = (self._table, self._error, self._times)
        return sum(memory.nbytes for memory in own if memory is not None)

    def bind(
        self, first: int, last: int, *, timed: bool = False, spins: int = SPINS
    ) -> tuple[BoundKernel, tuple[int, ...], tuple[int, ...] | None]:
        """Return the kernel that runs steps *first* to *last* (exclusive), its grid and its group.

        Steps that all have fewer tickets than workers get no more workers than tickets.

        Args:
            timed: Write the times that :meth:`times` returns.
            spins: Polls after which a wait between steps is given up.
        """
        workers = self._workers(first, last)
        if (kept := self._kernels.get((first, last, timed))) is not None:
            return kept, (workers,), (1,)
        if timed and self._times is None:
            zeros = np.zeros(TIMES * len(self._tickets) * self.workers, np.uint64)
            self._times = self.engine.upload(zeros, "the times of tiles")
        times = self._times if timed else None
        args = arguments(
            self._table,
            (first, last),
            self._counters,
            self._scratch,
            self._scratch_bytes,
            workers,
            self._error,
            self._banks,
            spins=spins,
            times=times,
        )
        kernel = self.engine.kernel(self._text, ENTRY, args, library=True, what=f"library {self._library}")
        self._kernels[first, last, timed] = kernel
        return kernel, (workers,), (1,)

    def use_bank(self, bank: int, memory: Memory) -> None:
        """Let what uses the lent bank *bank* find *memory* there, which lives until the runs with it are over."""
        for (first, last, _), kernel in self._kernels.items():
            if any(first <= step < last for step in self._users[bank]):
                kernel.set(FIRST_BANK + bank, memory)

    def interrupt(self) -> None:
        """Let the workers of a launch leave before the next step, where the host can reach the device's memory."""
        if self._error.array is not None:
            self.word[0] = INTERRUPTED

    def forget_interrupt(self) -> None:
        """Take back an interrupt that no worker has seen; nothing is in flight."""
        if self._error.array is not None and self.word[0] == INTERRUPTED:
            self.word[0] = 0

    def spoil(self, byte: int) -> None:
        """Enqueue setting every byte of the workers' scratch to *byte*: no step may rely on what another left there."""
        self.engine.stream.fill(self._scratch, byte)

    def times(self, first: int, last: int) -> Array:
        """Return what the last timed run of the range wrote: uint64 [steps, workers, TIMES]; see the kernel."""
        assert self._times is not None
        workers = self._workers(first, last)
        found = np.zeros((last - first, workers, TIMES), np.uint64)
        self.engine.stream.read(self._times, first * workers * TIMES * 8, found)
        return found

    def check(self) -> int:
        """Wait, and return 0, or 1 + the step at which a wait between steps was given up; clears the state then.

        ``INTERRUPTED`` where :meth:`interrupt` was called.
        """
        word = self.word
        if self._error.array is not None:
            self.engine.stream.finish()
        else:
            self.engine.stream.read(self._error, 0, word)
        found = int(word[0])
        if found:
            self.engine.stream.fill(self._error)
            self.engine.stream.fill(self._counters)
            self.engine.stream.finish()
        return found

    def _workers(self, first: int, last: int) -> int:
        return min(self.workers, max(self._tickets[first:last]))
