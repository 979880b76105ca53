"""A PoCL binary that holds the code of one kernel and nothing else, which PoCL loads in 2 ms.

Building a large program from its text takes PoCL 45 ms even where its cache has it: it preprocesses the text to find
the cache entry, and parses the bitcode there. A binary without bitcode is complete for the work-group sizes whose code
it holds. PoCL hands out binaries only with bitcode and with code for any work-group size, and compiles that for
seconds; here the code that has been run already is put into the binary of an empty kernel with the same parameters.

The format is PoCL's version 8 (``lib/CL/pocl_binary.c``), little-endian: magic, device, version, kernels, flags, the
folder in the cache as text of 41 bytes, a file (by convention the bitcode), then for each kernel its size, the size of
its files, what it is, and its files. A file is its name and its content, each behind a 32-bit length.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

ALONE = "1-1-1-goffs0-smallgrid"
"""Folder of the code that PoCL runs few work-groups of one work-item with."""
MOST_GROUPS = 1 << 15
"""Work-groups up to which PoCL runs the code that it made for few of them."""

_HEAD = struct.Struct("<8sQIIQ41s")
_MAGIC, _VERSION = b"poclbin\0", 8
_SIZES = struct.Struct("<QQ")
_FOLDER_LETTERS = 40


def empty_kernel(text: str, entry: str) -> str:
    """Return the text of kernel *entry* of *text*, whose parameters are of built-in types, without what it does."""
    declared = re.search(
        rf"(?:__attribute__\(\(reqd_work_group_size\([^)]*\)\)\)\s*)?__kernel void {entry}\([^)]*\)", text
    )
    assert declared is not None
    return f"{declared.group()} {{}}\n"


def loaded_code(entry: str) -> Path | None:
    """Return the file of kernel *entry*'s code that PoCL has loaded into this process, if there is exactly one."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text(encoding="utf-8", errors="replace").splitlines() if maps.is_file() else []
    found = {line.split(maxsplit=5)[-1] for line in lines if line.endswith(f"/{entry}.so")}
    return Path(found.pop()) if len(found) == 1 else None


def loaded_alone(entry: str) -> Path | None:
    """Return the file that :func:`loaded_code` does if it is for few work-groups of one work-item."""
    code = loaded_code(entry)
    return code if code is not None and code.parent.name == ALONE else None


def binary_of(code: Path, empty: bytes) -> bytes | None:
    """Return the binary with the code in file *code* (``<kernel>/<work-group size>/<kernel>.so`` in PoCL's cache).

    Args:
        empty: PoCL's binary of the :func:`empty_kernel`.

    Returns:
        ``None`` where *empty* is no binary of one kernel in the format that is known here.
    """
    if len(empty) < _HEAD.size:
        return None
    magic, device, version, kernels, flags, _ = _HEAD.unpack_from(empty)
    if (magic, version, kernels) != (_MAGIC, _VERSION, 1):
        return None
    try:
        start = _after_file(empty, _HEAD.size)
        size, files = _SIZES.unpack_from(empty, start)
    except struct.error:
        return None
    about = empty[start + _SIZES.size : start + size - files]
    if start + size != len(empty) or not about:
        return None
    content = code.read_bytes()
    file = _file("/" + "/".join(code.parts[-3:]), content)
    head = _HEAD.pack(magic, device, version, kernels, flags, _folder(content).encode())
    sizes = _SIZES.pack(_SIZES.size + len(about) + len(file), len(file))
    return head + _file("/clgraph", b"no bitcode") + sizes + about + file


def place_of(binary: bytes) -> str | None:
    """Return where PoCL looks in its cache for the files of *binary*; ``None`` for what it did not make, or later."""
    if len(binary) < _HEAD.size:
        return None
    magic, _, version, _, _, folder = _HEAD.unpack_from(binary)
    if (magic, version) != (_MAGIC, _VERSION):
        return None
    return bytes(folder).rstrip(b"\0").decode("ascii", "replace")


def code_in(place: Path, entry: str) -> Path:
    """Return the file in *place* of PoCL's cache with what runs few work-groups of one work-item of kernel *entry*."""
    return place / entry / ALONE / f"{entry}.so"


def _after_file(data: bytes, at: int) -> int:
    for _ in range(2):
        (size,) = struct.unpack_from("<I", data, at)
        at += 4 + size
    return at


def _file(name: str, content: bytes) -> bytes:
    parts = (name.encode(), content)
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def _folder(content: bytes) -> str:
    """Return a folder in PoCL's cache, named as PoCL names them, for no other code than *content*."""
    import hashlib

    letters = "".join(chr(ord("A") + int(digit, 16)) for digit in hashlib.sha256(content).hexdigest())
    return f"{letters[:2]}/{letters[2 : _FOLDER_LETTERS - 1]}"
