"""The kernel that runs ranges of a table of tile steps on a device, whoever has made the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import DeviceError, DeviceMemoryError, RunCancelledError
from clgraph.runtime.executor import FIRST_BANK, SPINS, TIMES, arguments, counter_count
from clgraph.selector.executor_kernel import BANKS, ENTRY

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array
    from clgraph.network.workspace import Workspace
    from clgraph.runtime.engine import BoundKernel, Engine
    from clgraph.runtime.memory import Memory
    from clgraph.runtime.programs import KeptBinary

INTERRUPTED = 2**31 - 1
"""In the error word: the host wants the workers to leave. No table has as many steps."""


@frozen
class TileRows:
    """The steps of a table as their kernels take them.

    Attributes:
        library, text: What runs them: the library's name, and its text or what it was built to.
        tickets: Of each step.
        scratch: Bytes that a worker needs for itself.
        users: The steps that use a bank which stands for memory of the caller's, by that bank.
        what: Returns the node and the tile function of a step, in words.
    """

    library: str
    text: str | KeptBinary
    tickets: Sequence[int]
    scratch: int
    users: Mapping[int, Sequence[int]]
    what: Callable[[int], str]


class Banks(Protocol):
    """The memory of one placement, by number, and what it is shared with."""

    @property
    def placement(self) -> str:
        """Where it is."""

    @property
    def engine(self) -> Engine:
        """What runs kernels on it."""

    @property
    def workspace(self) -> Workspace:
        """Memory shared with other programs."""

    @property
    def banks(self) -> list[Memory]:
        """What a bank number means."""


class TileKernels:
    """A table of steps on a device, and the kernel that runs ranges of it.

    Attributes:
        workers: Work-groups that run tickets.
        word: The error word, 0 where nothing went wrong; on a device with memory of its own, as read last.
        engine: Where it runs.
        rows: What it runs.
    """

    def __init__(self, rows: TileRows, table: Array, places: Banks) -> None:
        """Copy the *table*, in which every pointer is resolved, and allocate what its kernels need beside it.

        That are counters and the workers' scratch, as far as other tables have none to share.

        Raises:
            DeviceMemoryError: The memory is cut into more banks than a library can address.
        """
        engine: Engine = places.engine
        if len(places.banks) > BANKS:
            raise DeviceMemoryError(
                f"the model's memory takes {len(places.banks)} allocations of {engine.info.name} (at most "
                f"{engine.info.max_alloc} bytes each); tile functions address {BANKS}: deny them or use smaller shapes"
            )
        self.engine, self.workers, self.rows = engine, engine.info.workers, rows
        self._scratch_bytes = -(-rows.scratch // 64) * 64
        self._table, self._table_nbytes = engine.upload(table, "the table of tiles"), table.nbytes
        shared, count = places.workspace, counter_count(len(rows.tickets), self.workers)
        self._counters = shared.counters(places.placement, engine, rows.library, count)
        scratch = self._scratch_bytes * self.workers
        self._scratch = shared.scratch(places.placement, engine, rows.library, scratch)
        self._error = engine.upload(np.zeros(1, np.int32), "the error word of tiles")
        held = self._error.array
        self.word = np.zeros(1, np.int32) if held is None else held[:4].view(np.int32)
        self._banks = places.banks
        self._times: Memory | None = None
        self._kernels: dict[tuple[int, int, bool], BoundKernel] = {}

    @property
    def table_bytes(self) -> Array | None:
        """The table, where it lies in the host's memory."""
        array = self._table.array
        return None if array is None else array[: self._table_nbytes]

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
            zeros = np.zeros(TIMES * len(self.rows.tickets) * self.workers, np.uint64)
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
        kernel = self.engine.kernel(self.rows.text, ENTRY, args, library=True, what=f"library {self.rows.library}")
        self._kernels[first, last, timed] = kernel
        return kernel, (workers,), (1,)

    def use_bank(self, bank: int, memory: Memory) -> None:
        """Let what uses the lent bank *bank* find *memory* there, which lives until the runs with it are over."""
        for (first, last, _), kernel in self._kernels.items():
            if any(first <= step < last for step in self.rows.users[bank]):
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

    def check_waits(self) -> None:
        """Look at what a run has left, which is over.

        Raises:
            DeviceError: Workers have waited in vain.
            RunCancelledError: They were interrupted.
        """
        if not (step := self.check()):
            return
        if step == INTERRUPTED:
            raise RunCancelledError("the run was interrupted; the model can be used again")
        raise DeviceError(
            f"the workers of {self.rows.library!r} waited in vain for {self.rows.what(step - 1)}; the network can "
            "be run again, with executor=stream if it happens again"
        )

    def _workers(self, first: int, last: int) -> int:
        return min(self.workers, max(self.rows.tickets[first:last]))
