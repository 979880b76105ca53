"""Identity of an OpenCL platform's library: its file and SHA-256, more precise than a version number."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

from clgraph.core import cache_folder
from clgraph.core.digests import blake2
from clgraph.handlers import pass_on, suppressed

_DIGITS, _HEXADECIMAL = 64, frozenset("0123456789abcdef")
_ENTRIES = 16
"""Functions of a dispatch table that are looked at: a driver may leave some out."""


class _Symbol(ctypes.Structure):
    """``Dl_info`` of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def library_of(platform: Any) -> Path | None:
    """Return the shared library of a ``pyopencl.Platform``, by its path when loaded; ``None`` for an unknown one.

    What a platform points at begins with the table of its driver's functions (extension ``cl_khr_icd``).
    """
    try:
        address = ctypes.CDLL(None).dladdr
    except (OSError, AttributeError, TypeError) as error:
        pass_on(error)
        return None
    address.argtypes, address.restype = (ctypes.c_void_p, ctypes.POINTER(_Symbol)), ctypes.c_int
    table = ctypes.c_void_p.from_address(platform.int_ptr).value
    if not table:
        return None
    for function in (ctypes.c_void_p * _ENTRIES).from_address(table):
        found = _Symbol()
        if function and address(function, ctypes.byref(found)) and found.file:
            return Path(os.fsdecode(found.file))
    return None


@functools.cache
def identity_of(platform: Any, stamps: Path) -> str:
    """Return the SHA-256 of a platform's library; an empty text where it cannot be read."""
    library = library_of(platform)
    try:
        return "" if library is None else sha256_of(library, stamps)
    except OSError as error:
        pass_on(error)
        return ""


def sha256_of(library: Path, stamps: Path) -> str:
    """Return the SHA-256 of *library*, remembered in the folder *stamps* under its path, size and times of change.

    Raises:
        OSError: It cannot be read.
    """
    state = library.stat()
    told = f"{library}:{state.st_size}:{state.st_mtime_ns}:{state.st_ctime_ns}:{state.st_ino}"
    stamp = stamps / f"{blake2(os.fsencode(told)).hexdigest()[:32]}.sha256"
    with suppressed(OSError):
        text = cache_folder.read(stamp).decode("ascii", "replace")
        name, _, known = text.partition(" ")
        if name == stamp.stem and len(known) == _DIGITS and set(known) <= _HEXADECIMAL:
            return known
    import hashlib  # loads OpenSSL, which takes longer than all that a start does here

    with library.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        cache_folder.write(stamp, f"{stamp.stem} {digest}".encode("ascii"))
    except OSError as error:
        pass_on(error)
        return digest  # a folder that cannot be written costs 65 ms a start, no more
    return digest
