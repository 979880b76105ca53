"""The programs of an engine: built from text, compiled in this process or another, or out of the cache on disk."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.core.log import Log
from clgraph.errors import KernelBuildError
from clgraph.runtime import binaries, driver, pocl_binary, process
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.cpus import usable_cores
from clgraph.runtime.device import Device
from clgraph.runtime.kernels import INVALID_KERNEL_NAME, Kernel
from clgraph.runtime.pocl_cache import BINARIES
from clgraph.runtime.wheel import is_wheel, pocl_folder

_log = Log(__name__)


@frozen
class KeptBinary:
    """What stands for a text: the key of its binary in the cache on disk, and the options that it was built with."""

    key: str
    options: str


class Programs:
    """Programs for one device, by their text. Each is built once; safe to share between threads.

    Only who wants a library waits while another process compiles it: other models are compiled and run meanwhile.
    """

    def __init__(self, device: Device, context: Any, handle: Any, flags: str = "") -> None:
        """Build for *handle*, *device* or a part of it, kernels with *flags* beside the usual build options."""
        self._cl = driver.load()
        self._device, self._info, self._context, self._handle, self._flags = device, device.info, context, handle, flags
        self._built: dict[tuple[str, bool], Any] = {}
        self._of_binary: dict[str, Any] = {}
        self._places: dict[str | KeptBinary, str | None] = {}
        self._remembered: set[tuple[str, str]] = set()
        self._of_text: dict[str, tuple[str, Any]] = {}
        self._keeps_itself = self._info.name.startswith("pocl")
        folder = pocl_folder() if self._keeps_itself else process.chosen_options().cache_dir
        self._keys: dict[tuple[str, bool], str] = {}
        self._cache = binaries.ProgramCache(folder / BINARIES)
        self._lock = threading.Lock()
        self._turns: dict[str, threading.Lock] = {}

    def on(self, handle: Any) -> Programs:
        """Return the programs for another handle of the same context, out of the same cache."""
        twin = copy.copy(self)
        twin._handle, twin._built, twin._of_binary, twin._turns = handle, {}, {}, {}
        twin._lock = threading.Lock()
        return twin

    def build(self, text: str, what: str, *, library: bool = False) -> bool:
        """Build a program, or find that it is there; returns whether it had to be compiled.

        A library that is not in the cache on disk is compiled in a process of its own.

        Raises:
            KernelBuildError: It does not compile.
        """
        process.check_process()
        with self._turns.setdefault(text, threading.Lock()) if library else self._lock:
            if (text, library) in self._built:
                return False
            key = self._key(text, library)
            cached = self._cache.read(key)
            if library:
                self._built[text, library] = self._library(text, key, what, cached)
            else:
                if cached is None:
                    _log.info("compiling %s for %s, once on this machine", what, self._info.name)
                self._built[text, library] = self._load(text, key, what, cached)
            return cached is None

    def kept_binary(self, text: str, *, library: bool) -> KeptBinary | None:
        """Return what stands for *text*, ``None`` where the cache has no binary of it, or the driver has its own."""
        key = self._key(text, library)
        return KeptBinary(key, self.options(library=library, text=text)) if self._cache.read(key) else None

    def kernel_of_binary(self, kept: KeptBinary, entry: str, given: list[Any], what: str) -> Kernel:
        """Return kernel *entry* of a binary with the arguments *given*; what it was built of is not there.

        Raises:
            KernelBuildError: The binary is gone, the driver does not take it, or the kernel takes other arguments.
        """
        process.check_process()
        with self._lock:
            if kept.key not in self._of_binary:
                binary = self._cache.read(kept.key)
                made = binaries.from_binary(self._context, self._handle, binary, kept.options) if binary else None
                if made is None:
                    raise KernelBuildError(f"kernel {what}: its binary is gone from the cache")
                self._of_binary[kept.key] = made
                self._places[kept] = pocl_binary.place_of(binary) if binary else None
        try:
            return Kernel(self._cl, self._of_binary[kept.key], entry, given)
        except (self._cl.Error, TypeError) as error:
            raise KernelBuildError(f"kernel {what}: {entry} does not take {len(given)} arguments: {error}") from error

    def code_of(self, text: str | KeptBinary, entry: str) -> Path | None:
        """Return the file that PoCL loads the code of kernel *entry* of a library from, where that is known."""
        place = self._places.get(text)
        return None if place is None or not self._keeps_itself else pocl_binary.code_in(pocl_folder() / place, entry)

    def build_side_by_side(self, libraries: Mapping[str, str]) -> int:
        """Build those of *libraries*, what each is by its text, that have to be compiled, if several; return how many.

        Raises:
            KernelBuildError: One does not compile.
        """
        unbuilt = [text for text in libraries if (text, True) not in self._built]
        missing = [text for text in unbuilt if self._cache.read(self._key(text, True)) is None]
        if len(missing) < 2:
            return 0
        # Imported where it is needed, once on a machine.
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(usable_cores(), "clgraph-compile") as pool:
            return sum(pool.map(lambda text: self.build(text, libraries[text], library=True), missing))

    def options(self, *, library: bool = False, text: str = "") -> str:
        """Return what the compiler is told beside a kernel's *text*, or a library."""
        info = self._info
        return binaries.options_for(info.features, library, text, kind=info.kind) + ("" if library else self._flags)

    def compile_library(self, text: str, what: str) -> None:
        """Build a library in this process, which was started for that."""
        options = self.options(library=True)
        self._built[text, True] = binaries.build(self._context, self._handle, text, options, what)

    def library_binary(self, text: str, entry: str) -> bytes | None:
        """Return the binary of a library whose kernel *entry* has run in this process; ``None`` where there is none.

        The one that PoCL hands out takes longer to make and to load than the library takes to compile.
        """
        program = self._built[text, True]
        if not self._keeps_itself:
            return binaries.to_binary(program)
        if (code := pocl_binary.loaded_code(entry)) is None:
            return None
        options = self.options(library=True)
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
            options = self.options(library=library, text=text)
            told = (options, self._device.label, self._info.driver, str(self._info.simd))
            self._keys[text, library] = binaries.text_key(text, *told)
        return self._keys[text, library]

    def _library(self, text: str, key: str, what: str, cached: bytes | None) -> Any:
        """Return the program of a library from its cached binary, else compiled in another process, and keep it.

        Of several processes that want it one compiles it, and the others wait for that.
        """
        if cached is not None and (program := self._taken_back(text, cached, what)) is not None:
            return program
        # Imported where it is needed, once on a machine.
        from clgraph.core.progress import lasting
        from clgraph.core.turns import in_turn
        from clgraph.runtime.compiling import COMPILE_SECONDS, compile_library

        name = self._info.name
        with (
            lasting(_log, "%s is being compiled for %s, once on this machine", what, name),
            in_turn(self._cache.turn_path(key), COMPILE_SECONDS),
        ):
            made = self._cache.read(key)
            if made is not None and made != cached and (program := self._taken_back(text, made, what)) is not None:
                return program
            _log.info("compiling %s for %s, once on this machine", what, name)
            alone = is_wheel(self._device.handle.platform)
            binary = compile_library(self._device, text, what, self._cache, key, alone=alone)
            if (program := self._taken_back(text, binary, what)) is not None:
                self._cache.write(key, binary)
                return program
        raise KernelBuildError(f"{self._device} does not take back the binary that it made of {what}")

    def _taken_back(self, text: str, binary: bytes, what: str) -> Any | None:
        """Return the program of a library's *binary*, ``None`` where the driver does not take it."""
        options = self.options(library=True)
        with self._lock:
            self._places[text] = pocl_binary.place_of(binary)
            if binary:
                return binaries.from_binary(self._context, self._handle, binary, options)
            # The driver has the code in a cache of its own, under the text.
            return binaries.build(self._context, self._handle, text, options, what)

    def _load(self, text: str, key: str, what: str, cached: bytes | None) -> Any:
        """Return the program of a kernel from its cached binary, else from the text; keep it on disk."""
        options = self.options(text=text)
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

    def kernel(self, text: str, entry: str, given: list[Any], what: str, *, library: bool) -> Kernel:
        """Return kernel *entry* of *text* with the arguments *given*.

        Raises:
            KernelBuildError: The text does not compile, has no such kernel, or the kernel takes other arguments.
        """
        self.build(text, what, library=library)
        try:
            try:
                return Kernel(self._cl, self._built[text, library], entry, given)
            except self._cl.Error as error:
                if error.args[0].code() != INVALID_KERNEL_NAME:
                    raise
                # PoCL (3.0) builds programs without kernels from what it keeps while somebody removes that.
                _log.info("%s is built again: a program of it has no %s", what, entry)
                self._forget(text, library)
                self.build(text, what, library=library)
                return Kernel(self._cl, self._built[text, library], entry, given)
        except (self._cl.Error, TypeError) as error:
            raise KernelBuildError(f"kernel {what}: {entry} does not take {len(given)} arguments: {error}") from error

    def _forget(self, text: str, library: bool) -> None:
        """Let the next build of *text* be one from the text."""
        with self._lock:
            self._built.pop((text, library), None)
            self._of_text.pop(text, None)
            self._cache.remove(self._key(text, library))
