"""PoCL's kernel cache on disk, kept from killing the process: PoCL loads what lies there without looking at it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SEAL = "clgraph.seal"
"""File in a program's folder that names its files with size and CRC-32."""
INDEX = "clgraph.index"
"""File in the cache's folder that names the files of sealed programs with size and time of change, so that a program
that nobody has touched is not read again."""

_ABANDONED_SECONDS, _EMPTY_SECONDS = 3600.0, 60.0
"""Ages from which a temporary file of PoCL, and one without content, belong to no running process; PoCL leaves an empty
one behind in every process that builds something."""

_State = dict[str, list[int]]
"""Two numbers by file."""


def sweep(folder: Path) -> int:
    """Remove every program of PoCL's cache in *folder* that is damaged; return how many.

    Call before PoCL is loaded. A program without a seal (its process was killed) is looked at for completeness only.
    """
    removed = 0
    index = _read_json(folder / INDEX)
    known: dict[str, _State] = {}
    for program, state in _programs(folder):
        if index.get(program) == state:
            known[program] = state
            continue
        sealed = _read_json(folder / program / SEAL)
        if not _is_sound(folder / program, state, sealed):
            shutil.rmtree(folder / program, ignore_errors=True)
            removed += 1
        elif sealed.keys() == state.keys():
            known[program] = state
    if known != index:
        _write_json(folder / INDEX, known)
    _remove_abandoned(folder)
    return removed


def _remove_abandoned(folder: Path) -> None:
    now = time.time()
    for entry in _entries(folder):
        # The process that made it may remove it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if entry.name.startswith("tempfile") and entry.is_file():
                state = entry.stat()
                if now - state.st_mtime > (_ABANDONED_SECONDS if state.st_size else _EMPTY_SECONDS):
                    os.unlink(entry.path)


def seal(folder: Path) -> None:
    """Record the files of every program that have appeared since; a folder that cannot be written stays as it is."""
    index = _read_json(folder / INDEX)
    for program, state in _programs(folder):
        if index.get(program) == state:
            continue
        home = folder / program
        sealed = _read_json(home / SEAL)
        found = {name: sealed[name] if name in sealed else _fingerprint(home / name) for name in sorted(state)}
        if found != sealed and not _write_json(home / SEAL, found):
            return


def _programs(folder: Path) -> Iterator[tuple[str, _State]]:
    """Yield the folders that hold a program, two letters and a hash, with [size, time of change] of their files."""
    for parent in sorted(_entries(folder), key=lambda e: e.name):
        if len(parent.name) == 2 and parent.is_dir():
            for program in sorted(_entries(parent.path), key=lambda e: e.name):
                if program.is_dir():
                    yield f"{parent.name}/{program.name}", dict(_files(program.path, ""))


def _files(folder: str, prefix: str) -> Iterator[tuple[str, list[int]]]:
    for entry in _entries(folder):
        if entry.name.endswith((".bc", ".so")):
            if entry.is_file():
                status = entry.stat()
                yield prefix + entry.name, [status.st_size, status.st_mtime_ns]
        elif entry.is_dir():
            yield from _files(entry.path, f"{prefix}{entry.name}/")


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    """Return what is in *folder*; nothing where another process has just removed it."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one where there is none that can be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_json(path: Path, content: dict[str, Any]) -> bool:
    """Write *content*, at once or not at all; return whether it was written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        return False
    return True


def _fingerprint(path: Path) -> list[int]:
    data = path.read_bytes()
    return [len(data), zlib.crc32(data)]


def _is_sound(program: Path, state: _State, sealed: _State) -> bool:
    if not sealed.keys() <= state.keys():
        return False
    try:
        return all(
            _fingerprint(program / name) == sealed[name] if name in sealed else _is_complete(program / name)
            for name in state
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
