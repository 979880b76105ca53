"""PoCL 3.0 of the wheel, made to compile for an instruction set: its CPU's name and its built-in library.

PoCL queries LLVM 14 for the host CPU's name, and selects the built-in library by CPUID. The two need not agree: a
CPU newer than LLVM gets the name of one with fewer instructions, or ``generic``, for which every build fails. Code then
passes vectors in other places than the library expects. So both are set from one record of
:mod:`clgraph.runtime.instruction_sets`. The name is a ``char*`` in PoCL's device struct, which is pointed
elsewhere; that is done only for the one binary whose struct is known, and only where the pointer points at what PoCL
itself reports. PoCL is loaded through a folder of links in which every built-in library is the record's.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Protocol

from clgraph.core import cache_folder
from clgraph.core.digests import blake2
from clgraph.core.part import folder_of
from clgraph.errors import DeviceError
from clgraph.runtime import pocl_headers

LIBRARY_SHA256 = "d214aece60df73c75d8a678d33e4a51f4e5b594772dc74891b5451f909db6025"
CPU_NAME_OFFSET = 640
"""Bytes from the start of the device struct of that binary to its ``char *llvm_cpu``."""
DRIVER_OFFSET, BUILD_HASH_OFFSET = 880, 480
"""Bytes from there to the address of the driver's functions, and among these to ``build_hash``, which tells code of
one driver from that of another."""
BUILD_HASHES_APART = 0x7920E0 - 0x7903B0
"""Bytes from ``pocl_basic_build_hash`` to ``pocl_pthread_build_hash`` in that binary."""
DRIVER_CALLS = (0x794BBA - 0x791E30, 0x794BDF - 0x791E30)
"""Bytes from ``pocl_basic_init_device_ops`` to its call in that binary, and to that of ``pocl_pthread_init_device_ops``
behind it: devices are listed in the order of these calls."""

_TREE = b" declarations"
"""Of what a tree of links has that trees of other releases, beside it in the cache, have not."""

_KEPT: dict[int, ctypes.Array[ctypes.c_char]] = {}
"""The C strings that patched structs point at, by address of the struct: they must live as long as the process."""


class AddressSpace(Protocol):
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


def reported_cpu(version: str) -> str:
    """Return LLVM's name of the CPU from PoCL 3.0's ``CL_DEVICE_VERSION``, where it follows the target triple."""
    return version.rpartition("-linux-gnu-")[2]


def patch(memory: AddressSpace, struct_address: int, reported: str, cpu: str) -> None:
    """Point the CPU name of the device struct at *cpu*, an LLVM name.

    Args:
        memory: Where the struct is.
        struct_address: What ``cl_device_id`` points at.
        reported: The CPU name that the device reports (:func:`reported_cpu`).
        cpu: A name of LLVM's.

    Raises:
        DeviceError: The struct does not hold a pointer to *reported* where it should.
    """
    if struct_address in _KEPT:
        return
    expected = reported.encode() + b"\0"
    try:
        pointer = _pointer(memory, struct_address + CPU_NAME_OFFSET)
        found = memory.read(pointer, len(expected))
    except (OSError, OverflowError, struct.error) as error:
        raise DeviceError(f"the CPU name in PoCL's device cannot be read ({error})") from error
    if found != expected:
        raise DeviceError(f"PoCL's device holds {found!r} where its CPU name {expected!r} was expected")
    kept = ctypes.create_string_buffer(cpu.encode())
    memory.write(struct_address + CPU_NAME_OFFSET, struct.pack("<Q", ctypes.addressof(kept)))
    _KEPT[struct_address] = kept


def share_code(memory: AddressSpace, pthread: int, basic: int) -> None:
    """Let the device struct at *basic* take the code that PoCL has compiled for the one at *pthread*.

    Both drivers compile alike and run the same code, but tell it apart by their names.

    Raises:
        DeviceError: The structs do not hold the two functions that they should.
    """
    try:
        theirs, ours = (_pointer(memory, s + DRIVER_OFFSET) + BUILD_HASH_OFFSET for s in (pthread, basic))
        function = _pointer(memory, theirs)
        apart = function - _pointer(memory, ours)
        if apart not in (0, BUILD_HASHES_APART):
            raise DeviceError(f"PoCL's drivers tell their code apart by functions {apart} bytes from each other")
        memory.write(ours, struct.pack("<Q", function))
    except (OSError, OverflowError, struct.error) as error:
        raise DeviceError(f"the functions of PoCL's drivers cannot be read ({error})") from error


def list_pthread_first(memory: AddressSpace, pthread: int, basic: int) -> None:
    """Let PoCL, before it has listed its devices, list those of its driver ``pthread`` before those of ``basic``.

    Args:
        memory: Where PoCL is.
        pthread, basic: Addresses of the functions that set up the drivers, ``pocl_..._init_device_ops``.

    Raises:
        DeviceError: PoCL does not call them where it should.
    """
    calls = [basic + offset for offset in DRIVER_CALLS]
    try:
        usual, wanted = (list(map(_call, calls, functions)) for functions in ((basic, pthread), (pthread, basic)))
        found = [memory.read(address, len(code)) for address, code in zip(calls, wanted, strict=True)]
        if found not in (usual, wanted):
            raise DeviceError(f"PoCL has {found[0].hex()} and {found[1].hex()} where it should call its drivers")
        for address, code in zip(calls, wanted, strict=True):
            memory.write(address, code)
    except (OSError, OverflowError, struct.error) as error:
        raise DeviceError(f"PoCL's calls of its drivers cannot be read ({error})") from error


def _call(address: int, function: int) -> bytes:
    """Return x86-64's instruction at *address* that calls *function*."""
    return struct.pack("<Bi", 0xE8, function - (address + 5))


def _pointer(memory: AddressSpace, address: int) -> int:
    (found,) = struct.unpack("<Q", memory.read(address, 8))
    return int(found)


def wheel_library() -> Path | None:
    """Return the libpocl that pyopencl's wheel loads, without importing pyopencl."""
    home = folder_of("pyopencl")
    if home is None or not (folder := home / ".libs").is_dir():
        return None
    found = [name for name in os.listdir(folder) if name.startswith("libpocl-") and name.endswith(".so")]
    return folder / min(found) if found else None


def natural_library(flags: frozenset[str]) -> str:
    """Return the built-in library that PoCL 3.0 takes by itself on a CPU with *flags* (its ``getX86KernelLibName``)."""
    needs = (
        ("avx512", {"avx512f"}),
        ("avx2", {"avx2", "cx16", "popcnt", "abm", "f16c", "fma", "bmi1", "bmi2"}),
        ("avx_fma4", {"avx", "cx16", "popcnt", "xop", "fma4"}),
        ("avx_f16c", {"avx", "cx16", "popcnt", "f16c"}),
        ("avx", {"avx", "cx16", "popcnt"}),
        ("sse41", {"sse4_1", "cx16"}),
        ("ssse3", {"ssse3", "cx16"}),
    )
    return next((name for name, wanted in needs if wanted <= flags), "sse2")


def overlay(folder: Path, library: Path, built_in: str, *, anew: bool = False) -> Path:
    """Make, below *folder*, a tree of links to PoCL in which every built-in library is the one called *built_in*.

    With *anew* the headers are made again, too, where there are some.

    PoCL finds its data relative to the path it was loaded from; the headers are :mod:`clgraph.runtime.pocl_headers`'.
    Environments that share *folder* have trees of their own. Returns the folder that stands for pyopencl's.
    """
    package = library.parent.parent
    folder = folder / blake2(os.fsencode(library) + _TREE).hexdigest()[:16]
    data = package.parent / "pocl_binary_distribution" / ".libs"
    home = folder / "pyopencl"
    links = {home / ".libs" / library.name: library}
    kept = [name for name in os.listdir(data) if name.startswith("libhwloc")]
    links |= {folder / data.parent.name / ".libs" / name: data / name for name in kept}
    share = data / "share" / "pocl"
    shared = folder / data.parent.name / ".libs" / "share" / "pocl"
    # A link to a folder cannot take the place of the folder that a copy of the cache without links has: licences.
    for name in [entry.name for entry in os.scandir(share) if not entry.is_dir()]:
        stem, dash, last = name.rpartition("-")
        is_library = name.startswith("kernel-") and bool(dash) and last.endswith(".bc")
        links[shared / name] = share / (f"{stem}-{built_in}.bc" if is_library else name)
    pocl_headers.make(*headers(home, library), anew=anew)
    for link, target in links.items():
        cache_folder.link(link, target)
    cache_folder.keep(home / ".libs" / "pocl.icd", os.fsencode(f"{home / '.libs' / library.name}\n"))
    return home


def is_whole(home: Path, library: Path) -> bool:
    """Whether the tree of links with pyopencl's *home* has all that PoCL compiles kernels with, on the way it takes."""
    made, source = headers(home, library)
    found = home / ".libs" / ".." / ".." / made.relative_to(home.parent)
    pairs = ((found, source), (found.parent, source.parent))
    return all(os.path.exists(there / name) for there, wanted in pairs for name in os.listdir(wanted))


def headers(home: Path, library: Path) -> tuple[Path, Path]:
    """Return the folder of PoCL's headers in the tree of links with pyopencl's *home*, and that of the wheel."""
    below = Path("pocl_binary_distribution") / ".libs" / "share" / "pocl" / "include"
    return home.parent / below, library.parent.parent.parent / below
