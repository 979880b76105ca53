"""Lookup of kernel files: the project's folder, then the folders that plugins add."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from clgraph.core.registry import Registry
from clgraph.errors import RegistrationError

_PACKAGE = Path(__file__).parents[1]
_OWN = tuple(d for d in (_PACKAGE / "cl_kernels", _PACKAGE.parent / "cl_kernels") if d.is_dir())
KERNEL_DIRECTORIES: Registry[str, Path] = Registry("folder of kernels")
"""Those of plugins, by path."""
TEXT = ".text.cl"
"""How the names of kernel texts end."""
_INCLUDE = re.compile(r'^[ \t]*#include "([^"]+)"[ \t]*$', re.MULTILINE)


KERNEL_TEXTS: Registry[str, str] = Registry("kernel text")
"""Kernel files that are no files: their texts by the names that implementations give."""


def add_kernel_directory(directory: Path) -> None:
    """Let implementations name files below *directory*; a plugin calls this when it is imported."""
    if not directory.is_dir():
        raise RegistrationError(f"{directory} is not a folder of kernels")
    KERNEL_DIRECTORIES.register(str(directory), directory)


def kernel_directories() -> tuple[Path, ...]:
    """Return the folders of kernel files, in the order they are searched."""
    return (*_OWN, *KERNEL_DIRECTORIES.values())


def kernel_files() -> tuple[tuple[Path, str], ...]:
    """Return every ``.cl`` file as (folder, name relative to it), sorted."""
    return _files(kernel_directories())


def kernel_files_called(name: str) -> tuple[str, ...]:
    """Return the files whose last part is *name*, sorted, as they are in :func:`kernel_files`."""
    return _by_last_part(kernel_directories()).get(name, ())


@functools.cache
def _by_last_part(directories: tuple[Path, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for _, file in _files(directories):
        last = file.rpartition("/")[2]
        found[last] = (*found.get(last, ()), file)
    return found


@functools.cache
def _files(directories: tuple[Path, ...]) -> tuple[tuple[Path, str], ...]:
    return tuple(sorted((d, p.relative_to(d).as_posix()) for d in directories for p in d.rglob("*.cl")))


def includes(name: str) -> tuple[str, ...]:
    """Return what file *name* itself includes, in order."""
    return tuple(_INCLUDE.findall(source_text(name)))


def kernel_text(name: str) -> str:
    """Return kernel file *name* with its ``#include "…"`` lines expanded, each file once.

    The text is complete, so that it can key a cache of binaries. Raises ``RegistrationError`` listing the folders
    searched when the file is in none of them.
    """
    return expand(name, set()) if name.endswith(TEXT) else _expanded(name, kernel_directories())


@functools.cache
def _expanded(name: str, directories: tuple[Path, ...]) -> str:
    return expand(name, set())


def expand(name: str, seen: set[str]) -> str:
    """Return file *name* with its includes expanded, but those in *seen* left out; adds what it includes to *seen*."""
    seen.add(name)
    text = source_text(name)

    def include(match: re.Match[str]) -> str:
        wanted = match.group(1)
        line = text.count("\n", 0, match.start()) + 2
        inner = "" if wanted in seen else f'#line 1 "{wanted}"\n' + expand(wanted, seen)
        return f'{inner}\n#line {line} "{name}"'

    return _INCLUDE.sub(include, text)


def source_text(name: str) -> str:
    """Return kernel file *name* as it is written, its includes not expanded; raises as :func:`kernel_text`."""
    if name.endswith(TEXT) and (text := KERNEL_TEXTS.get(name)) is not None:
        return text
    return _read(name, kernel_directories())


@functools.cache
def _read(name: str, directories: tuple[Path, ...]) -> str:
    for directory in directories:
        for folder in (directory, directory / "include"):
            if (path := folder / name).is_file():
                return path.read_text(encoding="utf-8")
    raise RegistrationError(f"kernel file {name} is in none of {', '.join(map(str, directories))}")
