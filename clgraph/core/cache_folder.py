"""The cache folder: nobody but the user can put files into it, and only such a file is read.

What lies there is run as code. So the folder must belong to the user or to root, and nobody else may write to it or to
the areas in it; where that is not so, nothing is read from it or written to it. Files are made for the user alone, and
take the place of what is there by a rename: a link that somebody planted is replaced, never written through.
"""

from __future__ import annotations

import atexit
import errno
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from clgraph.core.files import NO_LINKS, partial, replacing
from clgraph.core.warn import warn
from clgraph.errors import OptionError
from clgraph.handlers import pass_on, suppressed
from clgraph.settings import homeless_cache_dir

AREAS = {
    "programs": "libraries and kernels, compiled for this machine's devices",
    "pocl": "what PoCL keeps of kernels it has compiled",
    "compiled": "compiled models, for the next start",
    "models": "models of the demo and the benchmarks, fetched",
    "vendors": "links that make an installed OpenCL driver visible",
    "tuning": "what `clgraph tune` and `clgraph bench --hint throughput` have measured",
    "canary": "which instruction sets the drivers compute rightly with, and how fast",
    "drivers": "checksums of the drivers' libraries",
}
"""Folders in the cache that are clgraph's, and what is in them."""

LEAST_FREE = 64 << 20
"""Bytes that a file system needs to be of use to a compiler's cache: PoCL ends the process when it is full."""

_FOLDER_MODE = 0o700
_BY_OTHERS = "can be written by others"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0


@functools.cache
def cache_folder(wanted: Path) -> Path:
    """Return the folder to keep things in where the options name *wanted*; made if it is not there.

    One that cannot be trusted or made is replaced by a temporary one that ends with the process, with a warning. One
    that can only be read stays: what would be written there is not kept, and nothing else fails.

    Raises:
        OptionError: There is no temporary folder either.
    """
    wanted = wanted.absolute()
    if (why := refusal(wanted)) is not None:
        found = temporary_folder()
        told = f"the cache folder {wanted} is not used: {why}. This process keeps what it compiles in {found}"
    else:
        found = wanted
        told = f"the cache is in {wanted}, because this user has no home folder: CLGRAPH_CACHE_DIR names another one"
        if wanted != homeless_cache_dir():
            return wanted
    warn(told)
    return found


def refusal(folder: Path) -> str | None:
    """Say why *folder* cannot be the cache folder, and what to do; ``None`` where it can. Made if it is not there."""
    try:
        make_folder(folder)
        for path in (folder, *_areas(folder)):
            # A link of the user's own, as to a larger disk, leads where nobody else may write either.
            if (why := _distrust(os.lstat(path)) or _distrust(os.stat(path))) is not None:
                cure = f" (or, if you trust all who could, `chmod -R go-w {folder}`)" * (_BY_OTHERS in why)
                return (
                    f"{'it' if path == folder else path} {why}, and what lies there is run as code. Remove it{cure}, "
                    "or name a folder of your own by CLGRAPH_CACHE_DIR"
                )
            # Of root, as after a first run by sudo: trusted, but shut.
            if not os.access(path, os.R_OK | os.X_OK):
                shut = "it" if path == folder else path
                return f"{shut} cannot be read by this user; name a folder of your own by CLGRAPH_CACHE_DIR"
    except OSError as error:
        pass_on(error)
        return f"{error.strerror or error}; name a folder that can be written by CLGRAPH_CACHE_DIR"
    return None


def not_writable(folder: Path) -> str | None:
    """Say why nothing can be kept in *folder*, a part of the cache folder; ``None`` where it can. Makes it."""
    try:
        make_folder(folder)
        if not os.access(folder, os.W_OK):
            return "it cannot be written"
        return unfit_for_code(folder)
    except OSError as error:
        pass_on(error)
        return str(error)


def unfit_for_code(folder: Path) -> str | None:
    """Say why a compiler cannot make code in *folder* and load it; ``None`` where it can; raises ``OSError``."""
    if free_bytes(folder) < LEAST_FREE:
        return "its file system is full"
    if hasattr(os, "ST_NOEXEC") and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return "its file system is mounted noexec, so that no code can be loaded from there"
    return None


@functools.cache
def temporary_folder() -> Path:
    """Return a folder that is removed when this process ends, the same at every call.

    Raises:
        OptionError: None can be made.
    """
    # Imported where it is needed: it takes longer than all the rest.
    import tempfile

    try:
        made = Path(tempfile.mkdtemp(prefix="clgraph-"))
    except OSError as error:
        raise OptionError(
            f"no temporary folder can be made ({error}): name a folder that can be written by CLGRAPH_CACHE_DIR"
        ) from error
    atexit.register(_remove, made, os.getpid())
    return made


def free_bytes(folder: Path) -> int:
    """Return what the user can still write to the file system of *folder*; raises ``OSError``."""
    if hasattr(os, "statvfs"):
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize
    import shutil

    return shutil.disk_usage(folder).free


def _remove(folder: Path, process: int) -> None:
    import shutil

    # A child that was forked runs what its parent has registered.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make *folder* and those it lies in, for the user alone; raises ``OSError`` where there is none then."""
    if not folder.parent.is_dir():
        make_folder(folder.parent)
    try:
        os.mkdir(folder, _FOLDER_MODE)
    except OSError as error:
        pass_on(error)
        # Another process may have made it; and a file system that can only be read says so first.
        if folder.is_dir():
            return
        if os.path.lexists(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
        raise


def read(path: Path) -> bytes:
    """Return what the file at *path* below the cache folder holds.

    Raises:
        OSError: It is missing, no file but a link, or not the user's own.
    """
    with open(path, "rb", opener=_open_no_link) as file:
        if (why := _distrust_file(os.fstat(file.fileno()))) is not None:
            raise PermissionError(errno.EPERM, f"it {why}, and is not read", str(path))
        return file.read()


def is_trusted(path: Path) -> bool:
    """Whether there is a file at *path* below the cache folder that only the user can have put there."""
    try:
        return _distrust_file(os.lstat(path)) is None
    except OSError as error:
        pass_on(error)
        return False


def write(path: Path, content: bytes) -> None:
    """Put *content* into a file below the cache folder, at once or not at all; raises ``OSError``."""
    make_folder(path.parent)
    with replacing(path) as file:
        file.write(content)


def keep(path: Path, content: bytes) -> None:
    """Put *content* into a file below the cache folder where it does not hold that yet; raises ``OSError``."""
    try:
        if read(path) == content:
            return
    except OSError as error:
        pass_on(error)
    write(path, content)


def link(path: Path, target: Path) -> None:
    """Put a link to *target* at *path* below the cache folder, where it is not yet; raises ``OSError``."""
    with suppressed(OSError):  # it is not there, or no link
        if os.readlink(path) == os.fspath(target):
            return
    make_folder(path.parent)
    temporary = partial(path)
    temporary.symlink_to(target)
    temporary.replace(path)


def _areas(folder: Path) -> Iterator[Path]:
    """Yield the folders of clgraph's areas, and those in them: of PoCL, for each kind of machine one."""
    for area in AREAS:
        path = folder / area
        if not os.path.lexists(path):
            continue
        yield path
        with suppressed(OSError), os.scandir(path) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_dir())


def _distrust(state: os.stat_result) -> str | None:
    """Say why somebody else may have made or changed what has *state*."""
    if not hasattr(os, "geteuid"):
        return None
    if state.st_uid not in (_ROOT, os.geteuid()):
        return f"belongs to another user (number {state.st_uid})"
    if state.st_mode & _OTHERS_WRITE and not stat.S_ISLNK(state.st_mode):
        return f"{_BY_OTHERS} (mode {stat.S_IMODE(state.st_mode):o})"
    return None


def _distrust_file(state: os.stat_result) -> str | None:
    return _distrust(state) if stat.S_ISREG(state.st_mode) else "is not a file"


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | NO_LINKS)
