"""Loading OpenCL: what must happen before the first platform is touched, and the files that PoCL compiles with."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
import time
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from clgraph.core.log import Log
from clgraph.core.part import folder_of
from clgraph.errors import DeviceError
from clgraph.handlers import pass_on
from clgraph.runtime import intel, opencl, pocl, pocl_cache, pocl_devices, pocl_headers, process
from clgraph.runtime.process import chosen_options, pocl_was_loaded
from clgraph.runtime.wheel import is_wheel, pocl_folder, wheel, wheel_decision
from clgraph.settings import Settings

_log = Log(__name__)


def choose_options(options: Settings) -> None:
    """Load the drivers under *options* instead of the environment's; has no effect once loading has begun."""
    if _prepare.cache_info().currsize == 0:
        process.CHOSEN[:] = [options]


@functools.cache
def _prepare() -> None:
    """Prepare the environment of the drivers."""
    folder = pocl_folder()
    pocl_was_loaded()
    os.environ["POCL_CACHE_DIR"] = str(folder)
    intel.make_visible(chosen_options().cache_dir / "vendors")


@contextlib.contextmanager
def loading(options: Settings) -> Iterator[None]:
    """Load the libraries of the wheel's PoCL and of pyopencl in a thread beside the block, if they are not loaded.

    It takes 7 ms without Python's lock; :func:`load` waits for the thread. No driver is called before the block calls
    :func:`expect_devices`. If a library cannot be loaded, :func:`load` fails in the same way and raises the error.
    """
    choose_options(options)
    _prepare()
    if load.cache_info().currsize or (library := wheel()) is None or (tree := _tree()) is None:
        yield
        return
    loader = _DriverLoader(tree / ".libs" / library.name, library.parent.parent / f"_cl{EXTENSION_SUFFIXES[0]}")
    _LOADERS.append(loader)
    loader.start()
    try:
        yield
    finally:
        # A process that is forked while a library is being loaded can load none.
        loader.end()
        _LOADERS.remove(loader)


def expect_devices() -> None:
    """Have the thread of :func:`loading` initialise PoCL's devices, because the block will open engines.

    From now on this process counts as one that has used OpenCL and cannot be forked. So call it only once it is known
    that a model will run; without it the devices are initialised by the first query.
    """
    for loader in _LOADERS[:1]:
        process.own()
        loader.set_up()


class _DriverLoader(threading.Thread):
    """Loads PoCL and pyopencl and then, if :meth:`set_up` is called before :meth:`end`, initialises PoCL's devices."""

    def __init__(self, pocl: Path, pyopencl: Path) -> None:
        super().__init__(name="clgraph loads PoCL")
        self._pocl, self._pyopencl = pocl, pyopencl
        self._wanted, self._told = False, threading.Event()

    def run(self) -> None:
        # ctypes.CDLL(path) would hold Python's lock.
        load_library = ctypes.CDLL(None).dlopen
        load_library(os.fsencode(self._pocl), ctypes.c_int(os.RTLD_LAZY))
        load_library(os.fsencode(self._pyopencl), ctypes.c_int(os.RTLD_NOW))
        self._told.wait()
        if self._wanted:
            pocl_devices.set_up(self._pocl)

    def set_up(self) -> None:
        self._wanted = True
        self._told.set()

    def end(self) -> None:
        self._told.set()
        self.join()


_LOADERS: list[_DriverLoader] = []
"""Those of the blocks that threads of this process are in."""


@functools.cache
def load() -> opencl.OpenCL:
    """Prepare the environment of the drivers once, and load OpenCL.

    Raises:
        DeviceError: pyopencl is not installed, or cannot be loaded.
    """
    _prepare()
    for loader in _LOADERS[:]:
        loader.end()
    try:
        found = opencl.load()
    except ImportError as error:
        raise DeviceError(f"OpenCL cannot be loaded: {error}") from error
    # pyopencl's loader looks for its own drivers below this folder; pyopencl's Python half sets it to its own, later.
    os.environ["PYOPENCL_HOME"] = str(_tree() or folder_of("pyopencl"))
    return found


@functools.cache
def _tree() -> Path | None:
    """Return the folder that stands for pyopencl's in the tree of links; ``None`` without the wheel's PoCL."""
    if (library := wheel()) is None:
        return None
    folder = pocl_folder()
    try:
        return pocl.overlay(folder / "links", library, wheel_decision().record.built_in)
    except OSError as error:
        from clgraph.runtime.scratch import shortage  # few starts come here

        raise DeviceError(
            f"what PoCL compiles kernels with cannot be put into {folder}: {error}; "
            f"{shortage(folder) or 'CLGRAPH_CACHE_DIR names another folder'}"
        ) from error


def look_after(program: str | None) -> None:
    """Remove what is damaged in PoCL's cache before PoCL looks there, each once a process, and seal at its end.

    Args:
        program: The only place in the cache that PoCL will look at, ``None`` where that is not known. Looking at all
            takes 25 us a program, 80 ms where tests have left three thousand, and most starts build none of a text.
    """
    with _LOOKING:
        _look_after(pocl_folder(), program)


def restore(handle: Any) -> bool:
    """Make again what the wheel's PoCL compiles with, where somebody has removed the cache folder; say whether."""
    library, tree = wheel(), _tree()
    if library is None or tree is None or not is_wheel(handle.platform) or pocl.is_whole(tree, library):
        return False
    with _LOOKING:
        try:
            pocl.overlay(pocl_folder() / "links", library, wheel_decision().record.built_in, anew=True)
        except OSError as error:
            pass_on(error)
            _log.warning("%s, which PoCL compiles kernels with, is gone and cannot be made again: %s", tree, error)
    return True


def was_removed(log: str) -> bool:
    """Whether a compiler's *log* misses a file that the wheel's PoCL compiles with."""
    tree = _tree()
    return tree is not None and any(str(tree) in line and "file not found" in line for line in log.splitlines())


def declarations(handle: Any, text: str) -> str:
    """Return what the wheel's PoCL compiles before *text* in place of all declarations; empty for another driver."""
    return pocl_headers.needed(text, _declared()) if is_wheel(handle.platform) and _declared() else ""


@functools.cache
def _declared() -> dict[str, str]:
    """Return the declarations of the built-in functions of the wheel's PoCL by the functions' stems."""
    library, tree = wheel(), _tree()
    if library is None or tree is None:
        return {}
    try:
        return pocl_headers.declarations(*pocl.headers(tree, library))
    except OSError as error:
        pass_on(error)
        _log.info("kernels are compiled with the declarations of all built-in functions: %s", error)
        return {}


_LOOKING = threading.Lock()


@functools.cache
def _look_after(folder: Path, program: str | None) -> None:
    # File systems count time in ticks.
    since = time.time() - 1
    if program is None:
        atexit.register(pocl_cache.seal, folder, since)
        pocl_cache.sweep(folder)
    else:
        atexit.register(pocl_cache.seal, folder, since, [program])
        pocl_cache.check(folder, program)
