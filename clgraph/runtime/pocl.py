"""PoCL 3.0 on CPUs that its LLVM does not know, and on a chosen instruction set.

PoCL asks LLVM 14 for the host CPU's name, gets ``generic`` for a CPU newer than LLVM, and then refuses every build. The
name is a ``char*`` in its device struct; pointing it at a name with the same vector extensions makes builds work, at
full speed. It is done only for the one binary whose struct layout is known, and only where the pointer points at what
PoCL itself reports. The built-in library is chosen by PoCL from CPUID; for another instruction set PoCL is loaded
through a folder of links in which every built-in library is the wanted one.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from clgraph.core.frozen import frozen
from clgraph.errors import DeviceError

PLATFORM_VERSION = "PoCL 3.0"
LIBRARY_SHA256 = "d214aece60df73c75d8a678d33e4a51f4e5b594772dc74891b5451f909db6025"
CPU_NAME_OFFSET = 640
"""Bytes from the start of the device struct of that binary to its ``char *llvm_cpu``."""

_KEPT: dict[int, ctypes.Array[ctypes.c_char]] = {}
"""The C strings that patched structs point at, by address of the struct: they must live as long as the process."""


@frozen
class Isa:
    """An instruction set: LLVM's CPU for it, PoCL's built-in library, floats in a vector, the CPUID flags it needs."""

    name: str
    cpu: str
    simd: int
    flags: frozenset[str]


ISAS = (
    Isa("avx512", "skylake-avx512", 16, frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"})),
    Isa("avx2", "haswell", 8, frozenset({"avx2", "fma", "bmi2"})),
    Isa("sse2", "x86-64", 4, frozenset()),
)


class Memory(Protocol):
    """The process's memory, read and written without the risk of a fault."""

    def read(self, address: int, count: int) -> bytes:
        """Return *count* bytes; raises ``OSError`` where nothing is mapped."""

    def write(self, address: int, data: bytes) -> None:
        """Write *data*; raises ``OSError`` where nothing is mapped."""


class ProcessMemory:
    """The memory of the running process, through ``/proc/self/mem``."""

    def read(self, address: int, count: int) -> bytes:
        """Return *count* bytes at *address*."""
        with Path("/proc/self/mem").open("rb", buffering=0) as file:
            file.seek(address)
            return file.read(count)

    def write(self, address: int, data: bytes) -> None:
        """Write *data* at *address*."""
        with Path("/proc/self/mem").open("r+b", buffering=0) as file:
            file.seek(address)
            file.write(data)


def host_isa(flags: Iterable[str]) -> Isa:
    """Return the widest instruction set whose flags are all in *flags* (``/proc/cpuinfo``'s)."""
    present = frozenset(flags)
    return next(isa for isa in ISAS if isa.flags <= present)


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the flags of the first CPU, none where the file says nothing."""
    if not cpuinfo.is_file():
        return frozenset()
    found = re.search(r"^flags\s*:\s*(.*)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(found.group(1).split()) if found else frozenset()


def refusal(platform_version: str, sha256: str | None, isa: Isa, flags: frozenset[str]) -> str | None:
    """Say why this PoCL must not be made to compile for *isa* on a CPU with *flags*, or return ``None``."""
    if missing := isa.flags - flags:
        return f"the CPU has no {', '.join(sorted(missing))}"
    if PLATFORM_VERSION not in platform_version:
        return f"{platform_version} is not {PLATFORM_VERSION}"
    if sha256 != LIBRARY_SHA256:
        return "its library is not the one of pocl-binary-distribution 3.0"
    return None


def patch(memory: Memory, struct_address: int, reported: str, isa: Isa) -> None:
    """Point the CPU name of the device struct at *isa*'s.

    Args:
        reported: The CPU name that the device reports at the end of ``CL_DEVICE_VERSION``.

    Raises:
        DeviceError: The struct does not hold a pointer to *reported* where it should.
    """
    if struct_address in _KEPT:
        return
    expected = reported.encode() + b"\0"
    try:
        (pointer,) = struct.unpack("<Q", memory.read(struct_address + CPU_NAME_OFFSET, 8))
        found = memory.read(pointer, len(expected))
    except (OSError, OverflowError, struct.error) as error:
        raise DeviceError(f"the CPU name in PoCL's device cannot be read ({error})") from error
    if found != expected:
        raise DeviceError(f"PoCL's device holds {found!r} where its CPU name {expected!r} was expected")
    kept = ctypes.create_string_buffer(isa.cpu.encode())
    memory.write(struct_address + CPU_NAME_OFFSET, struct.pack("<Q", ctypes.addressof(kept)))
    _KEPT[struct_address] = kept


def wheel_library() -> Path | None:
    """Return the libpocl that pyopencl's wheel loads, without importing pyopencl."""
    spec = importlib.util.find_spec("pyopencl")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted((Path(spec.origin).parent / ".libs").glob("libpocl-*.so"))), None)


def sha256_of(library: Path, stamps: Path) -> str:
    """Return the SHA-256 of *library*, remembered in the folder *stamps* under its path, size and time of change."""
    state = library.stat()
    key = hashlib.sha256(f"{library}:{state.st_size}:{state.st_mtime_ns}".encode()).hexdigest()[:32]
    stamp = stamps / f"{key}.sha256"
    if stamp.is_file() and re.fullmatch(r"[0-9a-f]{64}", text := stamp.read_text(encoding="ascii", errors="replace")):
        return text
    with library.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        stamps.mkdir(parents=True, exist_ok=True)
        stamp.write_text(digest, encoding="ascii")
    except OSError:
        return digest  # a cache folder that cannot be written costs 65 ms a start, no more
    return digest


def needs_overlay(isa: Isa, flags: frozenset[str]) -> bool:
    """Whether PoCL would choose another built-in library than *isa*'s on a CPU with *flags*."""
    return isa is not host_isa(flags) or isa.name == "sse2"


def overlay(folder: Path, library: Path, isa: Isa) -> Path:
    """Make, below *folder*, a tree of links to PoCL in which every built-in library is *isa*'s.

    PoCL finds its data relative to the path it was loaded from. Returns the folder that stands for pyopencl's.
    """
    package = library.parent.parent
    data = package.parent / "pocl_binary_distribution" / ".libs"
    home = folder / "pyopencl"
    links = {home / ".libs" / library.name: library}
    links |= {folder / data.parent.name / ".libs" / p.name: p for p in data.glob("libhwloc*")}
    share = data / "share" / "pocl"
    for path in share.iterdir():
        target = path
        if match := re.fullmatch(r"(kernel-.*)-[a-z0-9_]+\.bc", path.name):
            target = share / f"{match.group(1)}-{isa.name}.bc"
        links[folder / data.parent.name / ".libs" / "share" / "pocl" / path.name] = target
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        if not (link.is_symlink() and link.readlink() == target):
            temporary = link.with_name(f".{link.name}.{os.getpid()}")
            temporary.symlink_to(target)
            temporary.replace(link)
    (home / ".libs" / "pocl.icd").write_text(f"{home / '.libs' / library.name}\n", encoding="utf-8")
    return home
