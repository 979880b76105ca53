"""PoCL's kernel cache on disk, kept from killing the process: PoCL loads what lies there without looking at it."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
import zlib
from pathlib import Path

SEAL = "clgraph.seal"
"""File in a program's folder that names its files with size and CRC-32."""

_ABANDONED_SECONDS = 3600.0
"""Age from which a temporary file of PoCL belongs to no running process."""


def sweep(folder: Path) -> int:
    """Remove every program of PoCL's cache in *folder* that is damaged; return how many.

    Call before PoCL is loaded. A program without a seal (its process was killed) is looked at for completeness only.
    """
    removed = 0
    for program in _programs(folder):
        if not _is_sound(program):
            shutil.rmtree(program, ignore_errors=True)
            removed += 1
    for temporary in folder.glob("tempfile*"):
        if temporary.is_file() and time.time() - temporary.stat().st_mtime > _ABANDONED_SECONDS:
            temporary.unlink(missing_ok=True)
    return removed


def seal(folder: Path) -> None:
    """Record the files of every program that have appeared since; a folder that cannot be written stays as it is."""
    for program in _programs(folder):
        known = _read_seal(program)
        found = {name: known[name] if name in known else _fingerprint(program / name) for name in _files(program)}
        if found == known:
            continue
        temporary = program / f".{SEAL}.{os.getpid()}"
        try:
            temporary.write_text(json.dumps(found), encoding="utf-8")
            temporary.replace(program / SEAL)
        except OSError:
            return


def _programs(folder: Path) -> list[Path]:
    """Return the folders that hold a program: PoCL names them by a hash, two letters first."""
    return [
        p for parent in sorted(folder.glob("??")) if parent.is_dir() for p in sorted(parent.iterdir()) if p.is_dir()
    ]


def _files(program: Path) -> list[str]:
    found = (p for pattern in ("*.bc", "*.so") for p in program.rglob(pattern) if p.is_file())
    return sorted(p.relative_to(program).as_posix() for p in found)


def _read_seal(program: Path) -> dict[str, list[int]]:
    """Return [size, CRC-32] by file; nothing where there is no readable seal."""
    try:
        content = json.loads((program / SEAL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _fingerprint(path: Path) -> list[int]:
    data = path.read_bytes()
    return [len(data), zlib.crc32(data)]


def _is_sound(program: Path) -> bool:
    sealed = _read_seal(program)
    present = _files(program)
    if not set(sealed) <= set(present):
        return False
    try:
        return all(
            _fingerprint(program / name) == sealed[name] if name in sealed else _is_complete(program / name)
            for name in present
        )
    except OSError:
        return False


def _is_complete(path: Path) -> bool:
    """Whether the file is LLVM bitcode, or an ELF file whose section headers, its last part, are there."""
    data = path.read_bytes()
    if path.suffix == ".bc":
        return data[:4] == b"BC\xc0\xde" and len(data) % 4 == 0
    if len(data) < 64 or data[:4] != b"\x7fELF":
        return False
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    return bool(start + size * count <= len(data))
