"""An engine: one device opened for work, with its context, its queue, its programs and its memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clgraph.errors import DeviceError
from clgraph.runtime import calling_thread, driver, handles, memory, pocl_binary, process
from clgraph.runtime.device import Device, with_workers
from clgraph.runtime.kernel_calls import Code, KernelCall
from clgraph.runtime.memory import Memory
from clgraph.runtime.programs import KeptBinary, Programs
from clgraph.runtime.stream import Stream

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array
    from clgraph.runtime.callers_queue import CallersQueue

Scalar = np.int32 | np.int64 | np.float32
KernelArgument = Memory | Scalar


class Engine:
    """One OpenCL device in use. Kernels are built once an engine; safe to share between threads.

    Attributes:
        info: The device's profile, ``workers`` cut to the threads asked for.
        is_alone: Whether it runs in the calling thread beside one of more workers (:meth:`beside`).
        stream: The queue that kernels run on.
        programs: What it has built.
        failures: What the driver's commands raise.
    """

    flags: ClassVar[str] = ""

    def __init__(self, device: Device, threads: int | None = None, *, out_of_order: bool = False) -> None:
        """Open *device*, with *out_of_order* on a queue that may run independent kernels at once, if it has one.

        Raises:
            DeviceError: It is not an OpenCL device, runs no so many workers, or its driver makes no context or queue.
        """
        if device.handle is None:
            raise DeviceError(f"{device.info.name} is not an OpenCL device")
        if threads is not None and threads > pocl_binary.MOST_GROUPS:
            raise DeviceError(f"{device} runs at most {pocl_binary.MOST_GROUPS} workers, not {threads}")
        self.device = with_workers(device, threads)
        self.info = self.device.info
        self._cl = driver.load()
        self.failures: tuple[type[Exception], ...] = (self._cl.Error,)
        process.check_process()
        self._handle, self._beside, self.is_alone = device.handle, None, False
        try:
            if device.callers is None:
                # Tile functions are launched for as many workers as asked for; ordinary kernels would use every core.
                if self.info.kind == "cpu":
                    self._handle = handles.part_of(device.handle, self.info.workers)
                    if self.info.workers > 1 and not out_of_order:
                        self._beside = calling_thread.beside(device.handle)
                self._context = self._cl.Context([h for h in (self._handle, self._beside) if h is not None])
                self.stream = Stream(self._context, self._handle, out_of_order=out_of_order)
            else:
                self._context = device.callers.context
                self.stream = self._callers_stream(device.callers, out_of_order=out_of_order)
        except self._cl.Error as error:
            raise DeviceError(f"{device} cannot be opened: {error}") from error
        self.programs = Programs(self.device, self._context, self._handle, self.flags)
        self._programs_alone = None if self._beside is None else self.programs.on(self._beside)

    def _callers_stream(self, callers: CallersQueue, *, out_of_order: bool) -> Stream:
        if callers.queue is not None:
            return Stream.of(callers.queue)
        return Stream(self._context, self._handle, out_of_order=out_of_order)

    def on(self, callers: CallersQueue) -> Engine:
        """Return the engine of another queue of the same context, with the same kernels."""
        twin = copy.copy(self)
        twin.device = replace(self.device, callers=callers)
        twin.stream = self._callers_stream(callers, out_of_order=self.stream.out_of_order)
        return twin

    @property
    def calls_alone(self) -> bool:
        """Whether its kernels can run in the calling thread, as one worker's."""
        return self._beside is not None

    @property
    def on_callers_queue(self) -> bool:
        """Whether its commands go between those of a caller, on a queue that the caller has made."""
        return self.device.callers is not None and self.device.callers.queue is not None

    def begin(self) -> None:
        """Prepare for a run, which on the host's memory reads and writes outside of the queue.

        Raises:
            DeviceError: The process was forked after the engine was opened; or a command of the caller's has failed.
        """
        self.check_process()
        if self.on_callers_queue and "host_memory" in self.info.features:
            self.stream.finish()

    def check_process(self) -> None:
        """Raise ``DeviceError`` in a process that was forked after the engine was opened."""
        process.check_process()

    def profiling_stream(self) -> Stream:
        """Return a new stream whose events carry times; raises ``DeviceError`` as :meth:`beside`."""
        try:
            return Stream(self._context, self._handle, profiling=True)
        except self._cl.Error as error:
            raise DeviceError(f"{self.device} cannot create a queue with profiling: {error}") from error

    def allocate(self, nbytes: int, what: str) -> Memory:
        """Return memory for *what*. Raises ``DeviceMemoryError`` as :func:`clgraph.runtime.memory.allocate`."""
        self.check_process()
        return memory.allocate(self._context, self.info, nbytes, what)

    def lend(self, array: Array, *, writable: bool = False) -> Memory:
        """Return a caller's C-contiguous *array* as memory, on a device with the feature ``host_memory``."""
        return memory.lend(self._context, array, writable=writable)

    def lend_at(self, address: int, nbytes: int) -> Memory:
        """Return the caller's memory at *address* as memory that no kernel uses once the caller has given it up.

        On a device with the feature ``host_memory``.
        """
        return memory.lend_at(self._context, address, nbytes)

    def holds(self, held: Memory) -> bool:
        """Whether *held* can be used in commands of this engine."""
        return bool(held.handle.context == self._context)

    def beside(self, *, alone: bool = False) -> Engine:
        """Return the same engine with a queue of its own: what waits for one does not wait for the other.

        Where it runs on a queue of the caller's, that is the queue.

        Args:
            alone: One that runs in the calling thread, as one worker, on the same memory. Requires :attr:`calls_alone`.

        Raises:
            DeviceError: The driver makes no queue.
        """
        if self.on_callers_queue:
            return self
        twin = self.alone() if alone else copy.copy(self)
        try:
            twin.stream = Stream(self._context, twin._handle, out_of_order=self.stream.out_of_order)
        except self._cl.Error as error:
            raise DeviceError(f"{self.device} cannot create another queue: {error}") from error
        return twin

    def alone(self) -> Engine:
        """Return the engine in the calling thread, as one worker, on the same memory and with the same queue.

        Requires :attr:`calls_alone`. Its programs are others than this engine's.
        """
        twin = copy.copy(self)
        twin.device = with_workers(replace(self.device, info=self.info), 1)
        assert self._programs_alone is not None
        twin.info, twin.programs = twin.device.info, self._programs_alone
        twin._handle, twin._beside, twin.is_alone = self._beside, None, True
        return twin

    def upload(self, array: Array, what: str) -> Memory:
        """Return memory that holds the bytes of *array*."""
        data = np.ascontiguousarray(array)
        held = self.allocate(data.nbytes, what)
        if held.array is not None:
            held.array[: data.nbytes] = data.reshape(-1).view(np.uint8)
            return held
        self.stream.write(held, 0, data)
        self.stream.finish()
        return held

    def build(self, text: str, what: str, *, library: bool = False) -> bool:
        """Build a program, or find that it is there; returns whether it had to be compiled.

        Raises:
            KernelBuildError: It does not compile.
        """
        return self.programs.build(text, what, library=library)

    def kernel(
        self,
        text: str | KeptBinary,
        entry: str,
        args: list[KernelArgument],
        *,
        library: bool = False,
        what: str = "",
    ) -> BoundKernel:
        """Return kernel *entry* of *text*, or of what that was built to, with its arguments bound, for good.

        Raises:
            KernelBuildError: The text does not compile, has no such kernel, or the kernel takes other arguments.
        """
        given = [a.handle if isinstance(a, Memory) else a for a in args]
        if isinstance(text, str):
            kernel = self.programs.kernel(text, entry, given, what or entry, library=library)
        else:
            kernel = self.programs.kernel_of_binary(text, entry, given, what or entry)
        if not calling_thread.calls(self._handle):
            return BoundKernel(kernel, args)
        return BoundKernel(kernel, args, self.programs.code_of(text, entry) if library else pocl_binary.loaded_alone)


class BoundKernel:
    """A kernel with its arguments, and the memory that they refer to."""

    __slots__ = ("_args", "_call", "_code", "_held", "handle")

    def __init__(self, handle: Any, args: list[KernelArgument], code: Code | None = None) -> None:
        """Keep *args* alive as long as the kernel; *code* is where it is loaded from, if it can be called."""
        self.handle, self._held, self._args, self._code = handle, args, list(args), code
        self._call: KernelCall | None = None

    def set(self, index: int, memory: Memory) -> None:
        """Bind argument *index* to *memory*, which the caller keeps alive."""
        self.handle.set_arg(index, memory.handle)
        self._args[index] = memory
        if self._call is not None:
            self._call.set(index, memory)

    def on(self, stream: Stream, grid: tuple[int, ...], group: tuple[int, ...] | None) -> Callable[[], Any]:
        """Return the step that enqueues the kernel on *stream*, or calls it behind all that *stream* was given."""
        launch = stream.launch(self.handle, grid, group)
        if self._code is None or not stream.is_plain or grid != (1,) or group not in (None, (1,)):
            return launch
        if self._call is None:
            self._call = KernelCall(self._code, self.handle.entry, self._args)
        return self._call.step(launch, stream.finish)
