"""Loading OpenCL: what must happen before the first platform is touched, and what pyopencl can be asked."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from clgraph.errors import DeviceError
from clgraph.runtime import intel, pocl, pocl_cache
from clgraph.settings import Settings, settings

_log = logging.getLogger(__name__)

_ATOMIC_MEMORY_CAPABILITIES = 0x1063
_MAX_NUM_SUB_GROUPS = 0x105C
_LEAST_FREE = 64 << 20
"""Bytes that a file system needs to be of use as a kernel cache: PoCL ends the process when it is full."""

_CHOSEN: list[Settings] = []


def choose_options(options: Settings) -> None:
    """Let the drivers be loaded with *options* rather than with the environment's; too late once they are loaded."""
    if load.cache_info().currsize == 0:
        _CHOSEN[:] = [options]


def chosen_options() -> Settings:
    """Return the options that the drivers are loaded with."""
    return _CHOSEN[0] if _CHOSEN else settings()


@functools.cache
def load() -> Any:
    """Prepare the environment of the drivers once, and import pyopencl.

    Raises:
        DeviceError: pyopencl cannot be imported.
    """
    options = chosen_options()
    folder = pocl_folder()
    pocl_was_loaded()
    # File systems count time in ticks.
    atexit.register(pocl_cache.seal, folder, time.time() - 1)
    pocl_cache.sweep(folder)
    os.environ["POCL_CACHE_DIR"] = str(folder)
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    intel.make_visible(options.cache_dir / "vendors")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyopencl
    except ImportError as error:
        raise DeviceError(f"OpenCL cannot be loaded: {error}") from error
    isa = _overlay_isa()
    library = pocl.wheel_library()
    if isa is not None and library is not None:
        # pyopencl's loader looks for its own drivers below this folder.
        os.environ["PYOPENCL_HOME"] = str(pocl.overlay(folder / "links", library, isa))
    return pyopencl


@functools.cache
def pocl_folder() -> Path:
    """Return the folder of PoCL's kernel cache: one for each instruction set, because PoCL does not know about it.

    Where clgraph's cache folder cannot be written, a temporary one that is removed at exit, with a warning.
    """
    folder = chosen_options().cache_dir / "pocl" / _isa().name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        why = None if os.access(folder, os.W_OK) else "it cannot be written"
        why = why or (None if shutil.disk_usage(folder).free >= _LEAST_FREE else "its file system is full")
    except OSError as error:
        why = str(error)
    if why is None:
        return folder
    warnings.warn(f"kernels are compiled anew in every process: no cache in {folder}: {why}", stacklevel=2)
    temporary = Path(tempfile.mkdtemp(prefix="clgraph-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


@functools.cache
def pocl_was_loaded() -> bool:
    """Whether other code of this process loaded PoCL before clgraph: then it keeps its kernels where it likes."""
    maps = Path("/proc/self/maps")
    return maps.is_file() and "/libpocl" in maps.read_text(encoding="utf-8", errors="replace")


@functools.cache
def owner() -> int:
    """Return the process that first asked a driver for its devices: the only one that the driver works in."""
    return os.getpid()


def check_process() -> None:
    """Raise ``DeviceError`` in a process that was forked after OpenCL was used; a command would wait for ever there."""
    if os.getpid() != owner():
        raise DeviceError(
            "OpenCL was used before this process was forked, and the threads of its drivers do not survive that: start "
            "it with the 'spawn' method (multiprocessing.get_context('spawn')), or fork before the first use"
        )


def handles() -> list[tuple[Any, Any]]:
    """Return (platform, device) for every OpenCL device, none where there is no driver."""
    cl = load()
    owner()
    try:
        return [(platform, device) for platform in cl.get_platforms() for device in _devices_of(platform)]
    except cl.Error as error:
        _log.info("no OpenCL platform: %s", error)
        return []


def _devices_of(platform: Any) -> list[Any]:
    try:
        return list(platform.get_devices())
    except load().Error as error:
        _log.warning("%s lists no device: %s", platform.name, error)
        return []


def kind(handle: Any) -> Literal["cpu", "gpu"]:
    """Return the class of kernels that a ``pyopencl.Device`` wants."""
    return "cpu" if handle.type & load().device_type.CPU else "gpu"


def has_khronos_subgroups(handle: Any, extensions: Collection[str]) -> bool:
    """Whether the device has the sub-groups of Khronos' extension, or OpenCL 3's, which are the same."""
    try:
        return "cl_khr_subgroups" in extensions or (
            handle.version.startswith("OpenCL 3") and handle.get_info(_MAX_NUM_SUB_GROUPS) > 0
        )
    except load().Error:
        return False


def emulates_local_memory(handle: Any) -> bool:
    """Whether a GPU keeps local memory in ordinary memory, as many Mali and Adreno do."""
    return kind(handle) == "gpu" and bool(handle.local_mem_type == load().device_local_mem_type.GLOBAL)


def works(handle: Any) -> bool:
    """Whether a context can be made on the device."""
    cl = load()
    try:
        cl.Context([handle])
    except cl.Error as error:
        _log.info("%s makes no context: %s", handle.name, error)
        return False
    return True


def part_of(handle: Any, units: int) -> Any:
    """Return the sub-device of *units* compute units, the device itself where it cannot be divided."""
    cl = load()
    by_counts = cl.device_partition_property.BY_COUNTS
    if units >= handle.max_compute_units or by_counts not in handle.partition_properties:
        return handle
    try:
        return handle.create_sub_devices([by_counts, units, cl.device_partition_property.BY_COUNTS_LIST_END])[0]
    except cl.Error as error:
        _log.info("%s cannot be divided: %s", handle.name, error)
        return handle


def parts_of(handle: Any, units: int) -> list[Any]:
    """Return sub-devices of *units* compute units each, as many as there are; none where it cannot be divided."""
    cl = load()
    equally = cl.device_partition_property.EQUALLY
    if equally not in handle.partition_properties:
        return []
    try:
        return list(handle.create_sub_devices([equally, units]))
    except cl.Error as error:
        _log.info("%s cannot be divided: %s", handle.name, error)
        return []


def atomic_capabilities(handle: Any) -> int:
    """Return CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, 0 for a device that does not know the question."""
    cl = load()
    if not handle.version.startswith("OpenCL 3"):
        return 0
    try:
        return int(handle.get_info(_ATOMIC_MEMORY_CAPABILITIES))
    except cl.Error:
        return 0


def compute_capability(handle: Any) -> int:
    """Return ten times the version of an NVIDIA GPU's instructions, 0 where the driver does not tell."""
    try:
        return int(handle.compute_capability_major_nv) * 10 + int(handle.compute_capability_minor_nv)
    except (load().Error, AttributeError):
        return 0


def work_around(handle: Any) -> tuple[int | None, tuple[str, ...]]:
    """Make PoCL build on this CPU where its LLVM does not know it.

    Returns:
        The SIMD width of the instruction set it compiles for (``None``: as PoCL reports), and notes for the user.

    Raises:
        DeviceError: ``CLGRAPH_POCL_ISA`` asks for what this PoCL cannot be made to do.
    """
    forced = chosen_options().pocl_isa is not None
    isa = _isa()
    reported = handle.version.rpartition("-")[2]
    why = pocl.refusal(handle.platform.version, _library_sha256(), isa, pocl.cpu_flags())
    if why is None:
        try:
            pocl.patch(pocl.ProcessMemory(), handle.int_ptr, reported, isa)
        except DeviceError as error:
            why = str(error)
    if why is not None:
        if forced:
            raise DeviceError(f"CLGRAPH_POCL_ISA={isa.name} cannot be had: {why}")
        return None, (f"CPU {reported!r}, which its LLVM may not build for; not worked around: {why}",) * (
            reported == "generic"
        )
    foreign = ("PoCL was loaded before clgraph and does not use clgraph's kernel cache",) * pocl_was_loaded()
    if reported == isa.cpu and _overlay_isa() is None:
        return isa.simd, foreign
    what = "LLVM 14 does not know this CPU" if reported == "generic" else f"LLVM 14 calls this CPU {reported}"
    how = " with the built-in library of that instruction set" if _overlay_isa() is not None else ""
    return isa.simd, (f"{what}: kernels are compiled for {isa.cpu} ({isa.name}){how}", *foreign)


def _isa() -> pocl.Isa:
    wanted = chosen_options().pocl_isa
    return next(isa for isa in pocl.ISAS if isa.name == wanted) if wanted else pocl.host_isa(pocl.cpu_flags())


def _overlay_isa() -> pocl.Isa | None:
    """Return the instruction set whose built-in library PoCL must be given, ``None`` where it finds it by itself."""
    isa = _isa()
    if not pocl.needs_overlay(isa, pocl.cpu_flags()) or _library_sha256() != pocl.LIBRARY_SHA256:
        return None
    return isa


@functools.cache
def _library_sha256() -> str | None:
    library = pocl.wheel_library()
    return None if library is None else pocl.sha256_of(library, pocl_folder())
