"""An engine: one device opened for work, with its context, its queue, its kernels and its memory."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.core.log import Log
from clgraph.errors import DeviceError, KernelBuildError
from clgraph.graph.primitive import Array
from clgraph.runtime import binaries, calling_thread, driver, handles, memory, pocl_binary, process
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.cpus import usable_cores
from clgraph.runtime.device import Device, with_workers
from clgraph.runtime.kernels import INVALID_KERNEL_NAME, Kernel
from clgraph.runtime.memory import Memory
from clgraph.runtime.process import chosen_options
from clgraph.runtime.stream import Stream
from clgraph.runtime.wheel import is_wheel, pocl_folder

if TYPE_CHECKING:
    from clgraph.runtime.callers_queue import CallersQueue

_log = Log(__name__)

Scalar = np.int32 | np.int64 | np.float32
KernelArgument = Memory | Scalar


class Engine:
    """One OpenCL device in use. Kernels are built once an engine; safe to share between threads.

    Attributes:
        info: The device's profile, ``workers`` cut to the threads asked for.
        is_alone: Whether it runs in the calling thread beside one of more workers (:meth:`beside`).
        stream: The queue that programs run on.
        failures: What the driver's commands raise.
    """

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
        self._programs: dict[tuple[str, bool], Any] = {}
        self._programs_alone: dict[tuple[str, bool], Any] = {}
        self._remembered: set[tuple[str, str]] = set()
        self._of_text: dict[str, tuple[str, Any]] = {}
        self._keeps_itself = self.info.name.startswith("pocl")
        folder = pocl_folder() if self._keeps_itself else chosen_options().cache_dir
        self._keys: dict[tuple[str, bool], str] = {}
        self._cache = binaries.ProgramCache(folder / "programs")
        self._lock, self._lock_alone = threading.Lock(), threading.Lock()
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
        twin.info, twin._programs, twin._lock = twin.device.info, self._programs_alone, self._lock_alone
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

        A library that is not in the cache on disk is compiled in a process of its own.

        Raises:
            KernelBuildError: It does not compile.
        """
        self.check_process()
        with self._lock:
            if (text, library) in self._programs:
                return False
            key = self._key(text, library)
            cached = self._cache.read(key)
            if library:
                self._programs[text, library] = self._library(text, key, what, cached)
            else:
                if cached is None:
                    _log.info("compiling %s for %s, once on this machine", what, self.info.name)
                self._programs[text, library] = self._load(text, key, what, cached)
            return cached is None

    def build_side_by_side(self, libraries: Mapping[str, str]) -> int:
        """Build those of *libraries*, what each is by its text, that have to be compiled, if several; return how many.

        Raises:
            KernelBuildError: One does not compile.
        """
        self.check_process()
        with self._lock:
            found = [(text, self._key(text, True)) for text in libraries if (text, True) not in self._programs]
            missing = [(text, key) for text, key in found if self._cache.read(key) is None]
            if len(missing) < 2:
                return 0
            # Imported where it is needed, once on a machine.
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(usable_cores(), "clgraph-compile") as pool:
                made = pool.map(lambda row: self._library(row[0], row[1], libraries[row[0]], None), missing)
                self._programs |= {(text, True): program for (text, _), program in zip(missing, made, strict=True)}
        return len(missing)

    def build_options(self, *, library: bool = False, text: str = "") -> str:
        """Return what the compiler is told beside a kernel's *text*, or a library."""
        return binaries.options_for(self.info.features, library, text)

    def compile_library(self, text: str, what: str) -> None:
        """Build a library in this process, which was started for that."""
        options = self.build_options(library=True)
        self._programs[text, True] = binaries.build(self._context, self._handle, text, options, what)

    def library_binary(self, text: str, entry: str) -> bytes | None:
        """Return the binary of a library whose kernel *entry* has run in this process; ``None`` where there is none.

        The one that PoCL hands out takes longer to make and to load than the library takes to compile.
        """
        program = self._programs[text, True]
        if not self._keeps_itself:
            return binaries.to_binary(program)
        if (code := pocl_binary.loaded_code(entry)) is None:
            return None
        options = self.build_options(library=True)
        empty = binaries.build(self._context, self._handle, pocl_binary.empty_kernel(text, entry), options, entry)
        return pocl_binary.binary_of(code, binaries.to_binary(empty))

    def remembers(self, text: str, what: str) -> bool:
        """Whether :meth:`remember` was called for *text*, in this or an earlier process with this device and driver."""
        if (text, what) not in self._remembered and self._cache.read(self._mark(text, what)) is not None:
            self._remembered.add((text, what))
        return (text, what) in self._remembered

    def remember(self, text: str, what: str) -> None:
        """Keep on disk that *what* is true of the program *text* on this device."""
        self._cache.write(self._mark(text, what), b"")
        self._remembered.add((text, what))

    def _mark(self, text: str, what: str) -> str:
        return binaries.text_key(self._key(text, True), what)

    def _key(self, text: str, library: bool) -> str:
        if (text, library) not in self._keys:
            options = self.build_options(library=library, text=text)
            told = (options, self.device.label, self.info.driver, str(self.info.simd))
            self._keys[text, library] = binaries.text_key(text, *told)
        return self._keys[text, library]

    def _library(self, text: str, key: str, what: str, cached: bytes | None) -> Any:
        """Return the program of a library from its cached binary, else compiled in another process, and keep it.

        Of several processes that want it one compiles it, and the others wait for that.
        """
        if cached is not None and (program := self._taken_back(text, cached, what)) is not None:
            return program
        # Imported where it is needed, once on a machine.
        from clgraph.core.turns import in_turn
        from clgraph.runtime.compiling import COMPILE_SECONDS, compile_library

        with in_turn(self._cache.turn_path(key), COMPILE_SECONDS):
            made = self._cache.read(key)
            if made is not None and made != cached and (program := self._taken_back(text, made, what)) is not None:
                return program
            _log.info("compiling %s for %s, once on this machine", what, self.info.name)
            alone = is_wheel(self.device.handle.platform)
            binary = compile_library(self.device, text, what, self._cache, key, alone=alone)
            if (program := self._taken_back(text, binary, what)) is not None:
                self._cache.write(key, binary)
                return program
        raise KernelBuildError(f"{self.device} does not take back the binary that it made of {what}")

    def _taken_back(self, text: str, binary: bytes, what: str) -> Any | None:
        """Return the program of a library's *binary*, ``None`` where the driver does not take it."""
        options = self.build_options(library=True)
        if binary:
            return binaries.from_binary(self._context, self._handle, binary, options)
        # The driver has the code in a cache of its own, under the text.
        return binaries.build(self._context, self._handle, text, options, what)

    def _load(self, text: str, key: str, what: str, cached: bytes | None) -> Any:
        """Return the program of a kernel from its cached binary, else from the text; keep it on disk."""
        options = self.build_options(text=text)
        if cached and (program := binaries.from_binary(self._context, self._handle, cached, options)) is not None:
            return program
        program = binaries.build(self._context, self._handle, text, options, what)
        if cached is None:
            self._cache.write(key, b"" if self._keeps_itself else binaries.to_binary(program))
        if self._keeps_itself:
            self._of_text[text] = key, program
        return program

    @GATE
    def keep_binaries(self, texts: Iterable[str]) -> None:
        """Keep the binaries of the kernels that PoCL was given as *texts*.

        It takes 36 ms to load a text of which it has the code, because it preprocesses it to find that; a binary takes
        2. Making one takes as long as compiling the kernel did: for when there is time.
        """
        for text in texts:
            if (found := self._of_text.pop(text, None)) is None:
                continue
            key, program = found
            try:
                self._cache.write(key, binaries.to_binary(program))
            except self._cl.Error as error:
                _log.info("PoCL makes no binary, and is given the text again: %s", error)

    def kernel(
        self, text: str, entry: str, args: list[KernelArgument], *, library: bool = False, what: str = ""
    ) -> BoundKernel:
        """Return kernel *entry* of *text* with its arguments bound, for good.

        Raises:
            KernelBuildError: The text does not compile, has no such kernel, or the kernel takes other arguments.
        """
        given = [a.handle if isinstance(a, Memory) else a for a in args]
        self.build(text, what or entry, library=library)
        try:
            try:
                kernel = Kernel(self._cl, self._programs[text, library], entry, given)
            except self._cl.Error as error:
                if error.args[0].code() != INVALID_KERNEL_NAME:
                    raise
                # PoCL (3.0) builds programs without kernels from what it keeps while somebody removes that.
                _log.info("%s is built again: a program of it has no %s", what or entry, entry)
                self._forget(text, library)
                self.build(text, what or entry, library=library)
                kernel = Kernel(self._cl, self._programs[text, library], entry, given)
        except (self._cl.Error, TypeError) as error:
            raise KernelBuildError(
                f"kernel {what or entry}: {entry} does not take {len(args)} arguments: {error}"
            ) from error
        return BoundKernel(kernel, [a for a in args if isinstance(a, Memory)])

    def _forget(self, text: str, library: bool) -> None:
        """Let the next build of *text* be one from the text."""
        with self._lock:
            self._programs.pop((text, library), None)
            self._of_text.pop(text, None)
            self._cache.remove(self._key(text, library))


class BoundKernel:
    """A kernel with its arguments, and the memory that they refer to."""

    __slots__ = ("handle", "held")

    def __init__(self, handle: Any, held: list[Memory]) -> None:
        """Keep *held* alive as long as the kernel."""
        self.handle, self.held = handle, held

    def set(self, index: int, memory: Memory) -> None:
        """Bind argument *index* to *memory*, which the caller keeps alive."""
        self.handle.set_arg(index, memory.handle)

    def on(self, stream: Stream, grid: tuple[int, ...], group: tuple[int, ...] | None) -> Callable[[], Any]:
        """Return the step that enqueues the kernel on *stream*."""
        return stream.launch(self.handle, grid, group)
