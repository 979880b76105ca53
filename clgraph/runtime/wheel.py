"""PoCL of the wheel: which binary it is, the instruction set that it is made to compile for, where it keeps code."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from clgraph.core.cache_folder import make_folder, not_writable, temporary_folder
from clgraph.core.digests import blake2
from clgraph.core.frozen import changed
from clgraph.core.warn import warn
from clgraph.errors import DeviceError
from clgraph.handlers import pass_on
from clgraph.runtime import pocl, pocl_cache
from clgraph.runtime.canary import FORMAT, Decision, Subject, decide
from clgraph.runtime.cpus import usable_cores
from clgraph.runtime.identity import identity_of, library_of, sha256_of
from clgraph.runtime.instruction_sets import CPUINFO, InstructionSet, cpu_flags, cpu_identity, machine, named, of_host
from clgraph.runtime.process import chosen_options, served

NAME = "pocl:0"
"""What it is called, whatever other drivers there are."""


@functools.cache
def wheel() -> Path | None:
    """Return the library of the wheel's PoCL, where it is the known binary."""
    library = pocl.wheel_library()
    known = library is not None and sha256_of(library, stamps()) == pocl.LIBRARY_SHA256
    return library if known else None


@functools.cache
def wheel_decision() -> Decision:
    """Return what the wheel's PoCL runs: the widest instruction set of the CPU with which it computes rightly."""
    record, wanted = served(), chosen_options().pocl_isa
    there = of_host()
    if record is not None and record.built_in:
        return Decision(record)
    if record is not None and there:
        return Decision(there[-1])
    if not there:
        return Decision(named("sse2"), refusal=f"it is built for x86_64, and this is {machine()}")
    forced = [i for i in there if i.name == wanted]
    if wanted and not forced:
        missing = ", ".join(sorted(named(wanted).flags - cpu_flags()))
        return Decision(there[0], refusal=f"CLGRAPH_POCL_ISA={wanted} cannot be had: the CPU has no {missing}")
    subject = Subject(NAME, pocl.LIBRARY_SHA256, usable_cores())
    found = decide(subject, forced or there, chosen_options().cache_dir / "canary")
    told = () if cpu_flags() else (f"{CPUINFO} does not say what the CPU has: {found.record.name} is taken",)
    return changed(found, notes=(*found.notes, *told))


def is_wheel(platform: Any) -> bool:
    """Whether a platform is the wheel's PoCL, the binary that is known."""
    return identity_of(platform, stamps()) == pocl.LIBRARY_SHA256


def impose(handle: Any, record: InstructionSet) -> None:
    """Let a device of the wheel's PoCL compile for *record*; do nothing for another driver's.

    Raises:
        DeviceError: It is not as it is known; or other code of the process loaded it, with another built-in library.
    """
    if not is_wheel(handle.platform):
        return
    library = library_of(handle.platform)
    ours = library is not None and library.is_relative_to(pocl_folder())
    if not ours and (found := pocl.natural_library(cpu_flags())) != record.built_in:
        raise DeviceError(
            f"PoCL was loaded before clgraph by other code of this process, with its library for {found}; clgraph "
            f"has decided for {record.built_in}: call clgraph.devices() before, or use another process for clgraph"
        )
    pocl.patch(pocl.ProcessMemory(), handle.int_ptr, pocl.reported_cpu(handle.version), record.cpu)


def stamps() -> Path:
    """Return the folder of the checksums of drivers."""
    return chosen_options().cache_dir / "drivers"


@functools.cache
def pocl_folder() -> Path:
    """Return the folder of PoCL's kernel cache: one for each thing that it is made to compile for, which it ignores.

    Where clgraph's cache folder cannot be written, a temporary one that is removed at exit, with what the cache folder
    has of kernels (it may come with a container's image), and a warning.
    """
    record = wheel_decision().record if wheel() is not None else None
    told = f"{FORMAT} {pocl.LIBRARY_SHA256} {record.identity}" if record else f"{FORMAT} {cpu_identity()}"
    name = f"{record.name if record else 'own'}-{blake2(told.encode()).hexdigest()[:8]}"
    folder = chosen_options().cache_dir / "pocl" / name
    if (why := not_writable(folder)) is None:
        return folder
    warn(f"new kernels are compiled anew in every process: no cache in {folder}: {why}")
    temporary = temporary_folder() / "pocl"
    make_folder(temporary)
    try:
        pocl_cache.copy_kernels(folder, temporary)
    except OSError as error:
        pass_on(error)
        warn(f"kernels of {folder} cannot be copied: {error}")
    return temporary
