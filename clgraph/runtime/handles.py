"""The devices that OpenCL's drivers show: their names, what each can do, and what has to be known of its driver."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal

from clgraph.core.log import Log
from clgraph.errors import DeviceError
from clgraph.handlers import pass_on
from clgraph.runtime import amx, calling_thread, driver, pocl, pocl_devices
from clgraph.runtime.canary import Decision, Subject, decide
from clgraph.runtime.cpus import usable_cores
from clgraph.runtime.identity import identity_of, library_of
from clgraph.runtime.instruction_sets import InstructionSet, for_width
from clgraph.runtime.process import chosen_options, own, pocl_was_loaded, served
from clgraph.runtime.wheel import impose, is_wheel, stamps, wheel_decision

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


@functools.cache
def named_handles() -> dict[str, Any]:
    """Return every OpenCL device by its name (``pocl:0``), none where there is no driver.

    In the order of the platforms, but the wheel's PoCL before another: one that is installed beside it renames nothing.
    """
    cl = driver.load()
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
        library = library_of(platform) if is_wheel(platform) else None
        with nullcontext() if library is None else pocl_devices.as_wanted(library):
            return calling_thread.set_apart(platform, list(platform.get_devices()))
    except driver.load().Error as error:
        _log.warning("%s lists no device: %s", platform.name, error)
        return []


def kind(handle: Any) -> Literal["cpu", "gpu"]:
    """Return the class of kernels that suits a ``pyopencl.Device``."""
    return "cpu" if handle.type & driver.load().device_type.CPU else "gpu"


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
    except driver.load().Error:
        return False


def emulates_local_memory(handle: Any) -> bool:
    """Whether a GPU keeps local memory in ordinary memory, as many Mali and Adreno do."""
    return kind(handle) == "gpu" and bool(handle.local_mem_type == driver.load().device_local_mem_type.GLOBAL)


def works(handle: Any) -> bool:
    """Whether a context can be made on the device."""
    cl = driver.load()
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
    cl = driver.load()
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
    cl = driver.load()
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
    cl = driver.load()
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
    except (driver.load().Error, AttributeError) as error:
        pass_on(error)
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
    if not is_wheel(handle.platform):
        return record.features & {"fma"}
    tiles = record.features & amx.FEATURES
    return record.features - tiles if tiles and amx.refusal() else record.features


def notes(handle: Any, record: InstructionSet) -> tuple[str, ...]:
    """Return the notes for users on how the wheel's PoCL is used; none for other drivers."""
    if not is_wheel(handle.platform):
        return ()
    name = pocl.reported_cpu(handle.version)
    called = "does not know this CPU" if name == "generic" else f"calls this CPU {name}"
    told = (f"LLVM 14 {called}: kernels are compiled for {record.cpu} ({record.name})",) * (name != record.cpu)
    why = amx.refusal() if record.features & amx.FEATURES else ""
    tiles = (f"AMX is not used: {why}",) * bool(why)
    before = ("PoCL was loaded before clgraph and does not use clgraph's kernel cache",) * pocl_was_loaded()
    return (*told, *tiles, *before)
