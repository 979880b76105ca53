"""A queue of commands of one engine."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from clgraph.errors import DeviceError, DeviceMemoryError
from clgraph.runtime import driver
from clgraph.runtime.kernels import Kernel
from clgraph.runtime.memory import Memory

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array
    from clgraph.runtime.command_buffers import Launched

P = ParamSpec("P")
T = TypeVar("T")

Step = Callable[[], Any]
"""A prepared command: calling it enqueues; a launch on a profiling stream returns its event."""


def _reported(command: Callable[P, T]) -> Callable[P, T]:
    """Let a *command* of a stream raise ``DeviceError`` for what the driver refuses or reports."""

    @functools.wraps(command)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            return command(*args, **options)
        except driver.load().Error as error:
            kind = DeviceMemoryError if isinstance(error, driver.load().MemoryError) else DeviceError
            raise kind(f"the device failed: {error}") from error

    return call


class Stream:
    """Runs commands in the order they are given. Copies and kernels return before they are done, reads after.

    Its methods raise ``DeviceError`` where the driver refuses a command, or reports that one has failed; launches, the
    steps that :meth:`launch` and its like return, raise the driver's own error.

    Attributes:
        out_of_order: Kernels run in any order that their events allow; copies wait for all that was given before.
    """

    def __init__(self, context: Any, handle: Any, *, profiling: bool = False, out_of_order: bool = False) -> None:
        """Open a queue on a device; with *profiling*, its events carry times."""
        self._cl = driver.load()
        flag = self._cl.command_queue_properties
        self.out_of_order = out_of_order and bool(handle.queue_properties & flag.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        flags = flag.PROFILING_ENABLE if profiling else 0
        flags |= flag.OUT_OF_ORDER_EXEC_MODE_ENABLE if self.out_of_order else 0
        self._profiles = profiling
        self.queue = self._cl.CommandQueue(context, handle, properties=flags)

    @classmethod
    def of(cls, queue: Any) -> Stream:
        """Return the stream that runs commands on a caller's *queue*, between those of the caller."""
        made = cls.__new__(cls)
        made._cl = driver.load()
        flag = made._cl.command_queue_properties
        made.out_of_order = bool(queue.properties & flag.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        made._profiles, made.queue = False, queue
        return made

    @property
    def is_plain(self) -> bool:
        """Whether commands run in their order, and nobody asks how long one took."""
        return not (self.out_of_order or self._profiles)

    def launch(self, kernel: Kernel, grid: tuple[int, ...], group: tuple[int, ...] | None) -> Step:
        """Return the step that enqueues *kernel*, whose arguments are bound."""
        if self._profiles:
            return functools.partial(kernel.launch_after(self.queue, grid, group), ())
        return kernel.launch(self.queue, grid, group)

    def recorded(self, launches: Sequence[Launched]) -> Step:
        """Return the step that enqueues *launches*, recorded now; raises ``DeviceError`` when the driver refuses."""
        from clgraph.runtime.command_buffers import CommandBuffer

        return CommandBuffer(self.queue.device, self.queue, launches)

    @property
    def records(self) -> str | None:
        """Why it runs no recorded launches; ``None`` when it does."""
        from clgraph.runtime.command_buffers import refusal

        return refusal(self.queue.device, out_of_order=self.out_of_order)

    def launch_after(
        self,
        kernel: Kernel,
        grid: tuple[int, ...],
        group: tuple[int, ...] | None,
        events: list[Any],
        number: int,
        after: tuple[int, ...],
    ) -> Step:
        """Return the step that enqueues *kernel* behind the events of *after*, and makes its own ``events[number]``."""
        launch = kernel.launch_after(self.queue, grid, group)

        def step() -> None:
            events[number] = launch([events[n] for n in after])

        return step

    @_reported
    def write(self, memory: Memory, offset: int, array: Array) -> Any:
        """Enqueue a copy of a C-contiguous *array* to *memory*; the array must live until the stream is finished."""
        if array.nbytes == 0:
            return None
        if self.out_of_order:
            self.finish()
        return self._cl._enqueue_write_buffer(
            self.queue, memory.handle, array, dst_offset=offset, is_blocking=self.out_of_order
        )

    @_reported
    def read(self, memory: Memory, offset: int, array: Array) -> Any:
        """Fill a C-contiguous *array* from *memory*; returns when it is there, and all earlier commands are done."""
        if array.nbytes == 0:
            return None
        if self.out_of_order:
            self.finish()
        return self._cl._enqueue_read_buffer(self.queue, memory.handle, array, src_offset=offset, is_blocking=True)

    @_reported
    def copy(self, source: Memory, target: Memory, offset: int, nbytes: int, start: int = 0) -> Any:
        """Enqueue a copy of *nbytes* bytes of *source* from *start* on to *offset* of *target*."""
        if nbytes == 0:
            return None
        if self.out_of_order:
            self.finish()
        event = self._cl._enqueue_copy_buffer(
            self.queue, source.handle, target.handle, src_offset=start, dst_offset=offset, byte_count=nbytes
        )
        if self.out_of_order:
            self.finish()
        return event

    @_reported
    def fill(self, memory: Memory, value: int = 0, offset: int = 0, nbytes: int | None = None) -> None:
        """Enqueue setting *nbytes* bytes of *memory* from *offset* on, all that follow by default, to *value*."""
        if self.out_of_order:
            self.finish()
        count = memory.nbytes - offset if nbytes is None else nbytes
        self._cl._enqueue_fill_buffer(self.queue, memory.handle, np.uint8(value), offset, count)
        if self.out_of_order:
            self.finish()

    @_reported
    def barrier(self) -> None:
        """Let everything that follows start when all that was given before is done."""
        if self.out_of_order:
            self._cl._enqueue_barrier_with_wait_list(self.queue)

    @_reported
    def after(self, events: Sequence[Any]) -> None:
        """Let everything that follows start when *events* are over."""
        if events:
            self._cl._enqueue_barrier_with_wait_list(self.queue, wait_for=list(events))

    @_reported
    def marker(self) -> Any:
        """Return an event that is over when all that was given before is."""
        return self._cl._enqueue_marker_with_wait_list(self.queue)

    @_reported
    def flush(self) -> None:
        """Let the device start on what it was given, without waiting for it."""
        self.queue.flush()

    def times(self, event: Any) -> tuple[int, int, int]:
        """Wait for *event* of a profiling stream; return when it was queued, started and ended, in nanoseconds."""
        event.wait()
        ask, asked = event.get_profiling_info, self._cl.profiling_info
        return ask(asked.QUEUED), ask(asked.START), ask(asked.END)

    def finish(self) -> None:
        """Wait until every command is done."""
        try:
            self.queue.finish()
        except self._cl.Error as error:  # here and not outside: every run ends with it
            raise DeviceError(f"the device failed: {error}") from error
