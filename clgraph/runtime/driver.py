"""Loading OpenCL: what must happen before the first platform is touched, and what pyopencl can be asked."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from clgraph.core.log import Log
from clgraph.core.part import folder_of
from clgraph.errors import DeviceError
from clgraph.runtime import calling_thread, intel, opencl, pocl, pocl_cache, pocl_headers, process
from clgraph.runtime.canary import Decision, Subject, decide
from clgraph.runtime.cpus import usable_cores
from clgraph.runtime.identity import identity_of
from clgraph.runtime.instruction_sets import InstructionSet, for_width
from clgraph.runtime.process import chosen_options, own, pocl_was_loaded, served
from clgraph.runtime.wheel import impose, is_wheel, pocl_folder, stamps, wheel, wheel_decision
from clgraph.settings import Settings

_log = Log(__name__)

_PREFIXES = (
    ("portable computing language", "pocl"),
    ("intel", "intel"),
    ("nvidia", "nvidia"),
    ("amd", "amd"),
    ("apple", "apple"),
    ("rusticl", "rusticl"),
    ("clover", "clover"),
    ("qualcomm", "qualcomm"),
    ("arm", "arm"),
)
GPU = InstructionSet("own", "", "", "", 1, frozenset(), frozenset())
"""The record of GPUs: their drivers compile for what they are, and their work-items are thin."""

_ATOMIC_MEMORY_CAPABILITIES = 0x1063
_MAX_NUM_SUB_GROUPS = 0x105C


def choose_options(options: Settings) -> None:
    """Let the drivers be loaded with *options* rather than with the environment's; too late once that has begun."""
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
    """Load the library of the wheel's PoCL in a thread beside what the block does, if drivers are not loaded yet.

    It takes 7 ms, of which Python's lock is held in none; OpenCL's loader waits for it, and then finds it there. No
    driver is asked for anything. Where it fails, the loader fails alike, and that is told as ever.
    """
    choose_options(options)
    _prepare()
    if load.cache_info().currsize or (library := wheel()) is None or (tree := _tree()) is None:
        yield
        return
    thread = threading.Thread(target=_load_library, args=(tree / ".libs" / library.name,), name="clgraph loads PoCL")
    thread.start()
    try:
        yield
    finally:
        # A process that is forked while a library is being loaded can load none.
        thread.join()


def _load_library(path: Path) -> None:
    # ctypes.CDLL(path) would hold Python's lock.
    ctypes.CDLL(None).dlopen(os.fsencode(path), ctypes.c_int(os.RTLD_LAZY))


@functools.cache
def load() -> opencl.OpenCL:
    """Prepare the environment of the drivers once, and load OpenCL.

    Raises:
        DeviceError: pyopencl is not installed, or cannot be loaded.
    """
    _prepare()
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
    return pocl.overlay(pocl_folder() / "links", library, wheel_decision().record.built_in)


def look_after(program: str | None) -> None:
    """Remove what is damaged in PoCL's cache before PoCL looks there, each once a process, and seal at its end.

    Args:
        program: The only place in the cache that PoCL will look at, ``None`` where that is not known. Looking at all
            takes 25 us a program, 80 ms where tests have left three thousand, and most starts build none of a text.
    """
    with _LOOKING:
        _look_after(pocl_folder(), program)


def restore(handle: Any) -> None:
    """Make again what the wheel's PoCL compiles with, where somebody has removed the cache folder meanwhile."""
    library, tree = wheel(), _tree()
    if library is None or tree is None or not is_wheel(handle.platform) or pocl.is_whole(tree, library):
        return
    with _LOOKING:
        try:
            pocl.overlay(pocl_folder() / "links", library, wheel_decision().record.built_in, anew=True)
        except OSError as error:
            _log.warning("%s, which PoCL compiles kernels with, is gone and cannot be made again: %s", tree, error)


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


@functools.cache
def named_handles() -> dict[str, Any]:
    """Return every OpenCL device by its name (``pocl:0``), none where there is no driver.

    In the order of the platforms, but the wheel's PoCL before another: one that is installed beside it renames nothing.
    """
    cl = load()
    own()
    try:
        platforms = list(cl.get_platforms())
    except cl.Error as error:
        _log.info("no OpenCL platform: %s", error)
        return {}
    found: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for platform in _in_order(platforms):
        prefix = prefix_of(platform.name, platform.vendor)
        for handle in _devices_of(platform):
            found[f"{prefix}:{seen[prefix]}"] = handle
            seen[prefix] += 1
    return found


def _in_order(platforms: Sequence[Any]) -> list[Any]:
    """Return *platforms* with the wheel's PoCL in the place of the first PoCL, and the others moved behind it."""
    ours = [p for p in platforms if is_wheel(p)]
    first = next((i for i, p in enumerate(platforms) if prefix_of(p.name, p.vendor) == "pocl"), 0)
    return [*platforms[:first], *ours, *(p for p in platforms[first:] if p not in ours)]


def prefix_of(platform: str, vendor: str) -> str:
    """Return what names of devices begin with, from the names of their platform and its vendor."""
    for text, prefix in _PREFIXES:
        if re.search(rf"\b{text}\b", platform.lower()):
            return prefix
    for text, prefix in _PREFIXES:
        if re.search(rf"\b{text}\b", vendor.lower()):
            return prefix
    return re.sub(r"\W+", "", platform.lower().split()[0]) if platform.split() else "opencl"


def _devices_of(platform: Any) -> list[Any]:
    try:
        with calling_thread.offered(platform):
            return calling_thread.set_apart(platform, list(platform.get_devices()))
    except load().Error as error:
        _log.warning("%s lists no device: %s", platform.name, error)
        return []


def kind(handle: Any) -> Literal["cpu", "gpu"]:
    """Return the class of kernels that suits a ``pyopencl.Device``."""
    return "cpu" if handle.type & load().device_type.CPU else "gpu"


def has_clang(handle: Any) -> bool:
    """Whether the compiler of a ``pyopencl.Device`` is clang and the device a CPU: its built-in functions are there."""
    platform = handle.platform
    return kind(handle) == "cpu" and prefix_of(platform.name, platform.vendor) in ("pocl", "intel")


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
    """Return the sub-device of *units* compute units, the device itself where it cannot be divided.

    For one unit that is the device beside it that runs in the calling thread, where there is one.
    """
    if units == 1 and (alone := calling_thread.beside(handle)) is not None:
        return alone
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


def decision(name: str, handle: Any) -> Decision:
    """Return what the device *handle*, called *name*, runs; it is tried where nobody has yet.

    The wheel's PoCL is made to compile for the instruction set decided; other drivers compile for the CPU they find,
    and for them it decides how wide the vectors of the kernels are.
    """
    if is_wheel(handle.platform):
        found = wheel_decision()
        try:
            impose(handle, found.record)
        except DeviceError as error:
            return replace(found, refusal=found.refusal or str(error))
        return found
    records = (GPU,) if kind(handle) == "gpu" else for_width(handle.native_vector_width_float)
    if (record := served()) is not None:
        return Decision(record)
    version = f"{handle.platform.version} {handle.driver_version} {handle.version} {handle.name}"
    library = identity_of(handle.platform, stamps())
    subject = Subject(name, f"{library} {version}", usable_cores())
    return decide(subject, records, chosen_options().cache_dir / "canary")


def identity(handle: Any, record: InstructionSet) -> str:
    """Return what code compiled for a device depends on: its driver's versions and library, and the instruction set."""
    library = identity_of(handle.platform, stamps())
    return f"{handle.version} {handle.driver_version} {library[:16]} {record.identity}".strip()


def features(handle: Any, record: InstructionSet) -> frozenset[str]:
    """Return what kernels may use of *record*: inline assembly only where the driver is made to compile for it."""
    return record.features if is_wheel(handle.platform) else record.features & {"fma"}


def notes(handle: Any, record: InstructionSet) -> tuple[str, ...]:
    """Return what a user should know of how the wheel's PoCL is used; nothing of other drivers."""
    if not is_wheel(handle.platform):
        return ()
    name = pocl.reported_cpu(handle.version)
    called = "does not know this CPU" if name == "generic" else f"calls this CPU {name}"
    told = (f"LLVM 14 {called}: kernels are compiled for {record.cpu} ({record.name})",) * (name != record.cpu)
    before = ("PoCL was loaded before clgraph and does not use clgraph's kernel cache",) * pocl_was_loaded()
    return (*told, *before)
