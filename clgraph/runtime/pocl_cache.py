"""PoCL's kernel cache on disk, kept from killing the process: PoCL loads what lies there without looking at it."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clgraph.core.cache_folder import is_trusted, read, write
from clgraph.core.files import PARTIAL
from clgraph.handlers import pass_on, suppressed

SEAL = "clgraph.seal"
"""File in a program's folder that names its files with size and CRC-32."""
BINARIES = "programs"
"""Folder beside PoCL's, of the libraries and of marks for kernels that PoCL keeps."""
INDEX = "clgraph.known"
"""File in the cache's folder that names the files and folders of sealed programs with size and time of change
(ctime, which nobody can set), so that a program that nobody has touched is neither listed nor read again."""
_ACCESS = "last_accessed"
"""File in a program's folder whose time PoCL sets whenever it builds or loads the program."""

_ABANDONED_SECONDS, _EMPTY_SECONDS = 3600.0, 60.0
"""Ages from which a temporary file of PoCL, and one without content, belong to no running process; PoCL leaves an empty
one behind in every process that builds something."""

_FOLDER = -1
"""In place of a size."""

_State = dict[str, list[int]]
"""Two numbers by file, or by file and folder."""


def sweep(folder: Path) -> int:
    """Remove every program of PoCL's cache in *folder* that is damaged; return how many.

    Call before PoCL builds a program. One without a seal (its process was killed) is looked at for completeness only.
    """
    removed = 0
    index = _read_json(folder / INDEX)
    known: dict[str, _State] = {}
    for program in _programs(folder):
        if program in index and _is_as_it_was(f"{folder}/{program}", index[program]):
            known[program] = index[program]
            continue
        state = _state_of(folder / program)
        files = _files(state)
        sealed = _read_json(folder / program / SEAL)
        if not _is_sound(folder / program, files, sealed):
            _remove(folder / program)
            removed += 1
        elif sealed.keys() == files.keys():
            known[program] = state
    if known != index:
        _write_json(folder / INDEX, known)
    _remove_abandoned(folder)
    return removed


def check(folder: Path, program: str) -> bool:
    """Remove one program of PoCL's cache, called as :func:`_programs` calls it, if it is damaged; return whether so."""
    home = folder / program
    damaged = not _is_sound(home, _files(_state_of(home)), _read_json(home / SEAL))
    if damaged:
        _remove(home)
    _remove_abandoned(folder)
    return damaged


def _remove(program: Path) -> None:
    import shutil

    shutil.rmtree(program, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    now = time.time()
    for entry in _entries(folder):
        # The process that made it may remove it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if entry.name.startswith(("tempfile", PARTIAL)) and entry.is_file():
                state = entry.stat()
                if now - state.st_mtime > (_ABANDONED_SECONDS if state.st_size else _EMPTY_SECONDS):
                    os.unlink(entry.path)


def copy_kernels(folder: Path, to: Path) -> None:
    """Copy what *folder*, which cannot be written, has of kernels to the new folder *to*; raises ``OSError``.

    PoCL writes into its folder even where it only loads a kernel. What :func:`read` refuses is left out.
    """
    for part in (BINARIES, *_programs(folder)):
        waiting = [part]
        while waiting:
            prefix = waiting.pop()
            for entry in _entries(folder / prefix):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{prefix}/{entry.name}")
                elif is_trusted(Path(entry.path)):
                    write(to / prefix / entry.name, read(Path(entry.path)))


def seal(folder: Path, since: float = 0.0, programs: Sequence[str] | None = None) -> None:
    """Record the files that programs have got; a folder that cannot be written stays as it is.

    Args:
        since: Look only at the programs that somebody has used since then, in seconds of ``time.time``.
        programs: Look at no others.
    """
    index = _read_json(folder / INDEX) if programs is None else {}
    for program in _programs(folder) if programs is None else programs:
        home = folder / program
        if not _used_since(f"{home}/{_ACCESS}", since):
            continue
        if program in index and _is_as_it_was(str(home), index[program]):
            continue
        sealed = _read_json(home / SEAL)
        names = sorted(_files(_state_of(home)))
        found = {name: sealed[name] if name in sealed else _fingerprint(home / name) for name in names}
        if found != sealed and not _write_json(home / SEAL, found):
            return


def _programs(folder: Path) -> list[str]:
    """Return the folders that hold a program, two letters and a hash."""
    parents = sorted(e.name for e in _entries(folder) if len(e.name) == 2 and e.is_dir())
    return [f"{p}/{name}" for p in parents for name in sorted(e.name for e in _entries(folder / p) if e.is_dir())]


def _state_of(program: Path) -> _State:
    """Return [size, time of change] of a program's files, and of its folders, which others appear in."""
    found: _State = {}
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with suppressed(OSError):
            found[prefix] = [_FOLDER, os.stat(program / prefix).st_ctime_ns]
        for entry in _entries(program / prefix):
            if entry.name.endswith((".bc", ".so")):
                if entry.is_file():
                    status = entry.stat()
                    found[prefix + entry.name] = [status.st_size, status.st_ctime_ns]
            elif entry.is_dir():
                waiting.append(f"{prefix}{entry.name}/")
    return found


def _files(state: _State) -> _State:
    return {name: numbers for name, numbers in state.items() if numbers[0] != _FOLDER}


def _is_as_it_was(program: str, state: _State) -> bool:
    """Whether no file of a program has changed, and none has come or gone."""
    try:
        for name, (size, changed) in state.items():
            status = os.stat(f"{program}/{name}")
            if status.st_ctime_ns != changed or size not in (status.st_size, _FOLDER):
                return False
    except (OSError, TypeError, ValueError, AttributeError) as error:
        pass_on(error)
        return False
    return True


def _used_since(access: str, since: float) -> bool:
    try:
        return os.stat(access).st_mtime >= since
    except OSError as error:
        pass_on(error)
        return True


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    """Return what is in *folder*; nothing where another process has just removed it."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        pass_on(error)
        return []


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one where there is none that can be read."""
    try:
        content = json.loads(read(path).decode("utf-8"))
    except (OSError, ValueError) as error:
        pass_on(error)
        return {}
    return content if isinstance(content, dict) else {}


def _write_json(path: Path, content: dict[str, Any]) -> bool:
    """Write *content*, at once or not at all; return whether it was written."""
    try:
        write(path, json.dumps(content).encode("utf-8"))
    except OSError as error:
        pass_on(error)
        return False
    return True


def _fingerprint(path: Path) -> list[int]:
    data = path.read_bytes()
    return [len(data), zlib.crc32(data)]


def _is_sound(program: Path, state: _State, sealed: _State) -> bool:
    if not sealed.keys() <= state.keys() or not all(is_trusted(program / name) for name in state):
        return False
    try:
        return all(
            _fingerprint(program / name) == sealed[name] if name in sealed else _is_complete(program / name)
            for name in state
        )
    except OSError as error:
        pass_on(error)
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
