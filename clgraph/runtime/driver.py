"""Loading OpenCL: what must happen before the first platform is touched, and what pyopencl can be asked."""

from __future__ import annotations

import functools
import logging
import os
import warnings
from pathlib import Path
from typing import Any, Literal

from clgraph.errors import DeviceError
from clgraph.runtime import intel, pocl
from clgraph.settings import Settings, settings

_log = logging.getLogger(__name__)

_ATOMIC_MEMORY_CAPABILITIES = 0x1063


@functools.cache
def load() -> Any:
    """Prepare the environment of the drivers once, and import pyopencl.

    The options are those of the environment at this moment: drivers read theirs when they are loaded.

    Raises:
        DeviceError: pyopencl cannot be imported.
    """
    options = settings()
    _prepare_pocl(options)
    intel.make_visible(options.cache_dir / "vendors")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyopencl
    except ImportError as error:
        raise DeviceError(f"OpenCL cannot be loaded: {error}") from error
    isa = _overlay_isa(options)
    library = pocl.wheel_library()
    if isa is not None and library is not None:
        # pyopencl's loader looks for its own drivers below this folder.
        os.environ["PYOPENCL_HOME"] = str(pocl.overlay(options.cache_dir / "pocl" / f"{isa.name}-links", library, isa))
    return pyopencl


def platforms() -> list[Any]:
    """Return the OpenCL platforms, none where there is no driver."""
    cl = load()
    try:
        return list(cl.get_platforms())
    except cl.Error as error:
        _log.info("no OpenCL platform: %s", error)
        return []


def kind(handle: Any) -> Literal["cpu", "gpu"]:
    """Return the class of kernels that a ``pyopencl.Device`` wants."""
    return "cpu" if handle.type & load().device_type.CPU else "gpu"


def works(handle: Any) -> bool:
    """Whether a context can be made on the device."""
    cl = load()
    try:
        cl.Context([handle])
    except cl.Error as error:
        _log.info("%s makes no context: %s", handle.name, error)
        return False
    return True


def atomic_capabilities(handle: Any) -> int:
    """Return CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, 0 for a device that does not know the question."""
    cl = load()
    if not handle.version.startswith("OpenCL 3"):
        return 0
    try:
        return int(handle.get_info(_ATOMIC_MEMORY_CAPABILITIES))
    except cl.Error:
        return 0


def work_around(handle: Any) -> tuple[int | None, tuple[str, ...]]:
    """Make PoCL build on this CPU where its LLVM does not know it.

    Returns:
        The SIMD width of the instruction set it compiles for (``None``: as PoCL reports), and notes for the user.
    """
    options = settings()
    forced = options.pocl_isa is not None
    isa = _isa(options)
    reported = handle.version.rpartition("-")[2]
    library = pocl.wheel_library()
    sha256 = None if library is None else pocl.sha256_of(library, options.cache_dir / "pocl")
    why = pocl.refusal(handle.platform.version, sha256)
    if why is not None:
        if forced:
            raise DeviceError(f"CLGRAPH_POCL_ISA={isa.name} cannot be had: {why}")
        return None, (f"CPU {reported!r}; no work-around: {why}",) if reported == "generic" else ()
    try:
        was = pocl.patch(pocl.ProcessMemory(), handle.int_ptr, reported, isa, forced)
    except DeviceError as error:
        return None, (f"work-around not applied: {error}",)
    if was is None:
        return None, ()
    unknown = "LLVM 14 does not know this CPU" if was == "generic" else f"its CPU is {was}"
    how = " with the built-in library of that instruction set" if _overlay_isa(options) is not None else ""
    return isa.simd, (f"{unknown}: kernels are compiled for {isa.cpu} ({isa.name}){how}",)


def _prepare_pocl(options: Settings) -> None:
    """Give PoCL a kernel cache of its own for the instruction set: its cache does not know about the work-around."""
    folder = options.cache_dir / "pocl" / _isa(options).name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        warnings.warn(f"the kernel cache {folder} cannot be used ({error}); PoCL uses its own", stacklevel=2)
        return
    os.environ["POCL_CACHE_DIR"] = str(folder)


def _isa(options: Settings) -> pocl.Isa:
    wanted = options.pocl_isa
    return next(isa for isa in pocl.ISAS if isa.name == wanted) if wanted else pocl.host_isa(pocl.cpu_flags())


def _overlay_isa(options: Settings) -> pocl.Isa | None:
    """Return the instruction set whose built-in library PoCL must be given, ``None`` where it finds it by itself."""
    isa = _isa(options)
    library = pocl.wheel_library()
    if library is None or not pocl.needs_overlay(isa, pocl.cpu_flags()):
        return None
    ours = pocl.sha256_of(library, options.cache_dir / "pocl") == pocl.LIBRARY_SHA256
    return isa if ours else None


def cache_folder() -> Path:
    """Return clgraph's cache folder."""
    return settings().cache_dir
