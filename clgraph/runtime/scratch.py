"""Temporary folders that compilers work in, and what a process is short of when one of them fails."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.core.cache_folder import make_folder, unfit_for_code
from clgraph.handlers import pass_on
from clgraph.runtime.process import chosen_options

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

_FILES = 64
"""Open files that a compiler gets by with: PoCL's linker needs thirteen."""
_LEFT_SECONDS = 86400
"""How long nothing has changed in a folder whose process was killed: no compiler may take that long."""


def scratch_folder(prefix: str) -> TemporaryDirectory[str]:
    """Return a temporary folder in which code can be made and loaded: in the system's, else in clgraph's cache folder.

    What killed processes have left there under *prefix* is removed.

    Raises:
        OSError: None can be made.
    """
    # Imported where it is needed: few starts compile or try anything.
    import tempfile

    try:
        made = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
        if unfit_for_code(Path(made.name)) is None:
            _remove_left(Path(made.name).parent, prefix)
            return made
        made.cleanup()
    except OSError as error:
        pass_on(error)
        # no folder of the system's can be written, or its file system has no room for one more
    make_folder(chosen_options().cache_dir)
    _remove_left(chosen_options().cache_dir, prefix)
    return tempfile.TemporaryDirectory(prefix=prefix, dir=chosen_options().cache_dir, ignore_cleanup_errors=True)


def _remove_left(parent: Path, prefix: str) -> None:
    """Remove the user's own folders in *parent* whose names begin with *prefix* and in which nothing has changed."""
    import shutil

    user = os.getuid() if hasattr(os, "getuid") else None
    for folder in parent.glob(f"{prefix}*"):
        try:
            found = folder.lstat()
        except OSError as error:
            pass_on(error)
            continue
        ours = stat.S_ISDIR(found.st_mode) and user in (None, found.st_uid)
        if ours and time.time() - found.st_mtime > _LEFT_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def shortage(folder: Path) -> str:
    """Say what a compiler in *folder* may have failed for that is no fault of its own; empty where it has everything.

    What was found out in want of something is not kept for processes that have it.
    """
    try:
        why = unfit_for_code(folder)
    except OSError as error:
        pass_on(error)
        why = str(error)
    found = [f"{folder} is of no use to a compiler: {why}" if why else ""]
    try:
        import resource
    except ImportError:
        return found[0]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found.append(f"at most {files} files can be open (ulimit -n)" if 0 <= files < _FILES else "")
    limits = ((resource.RLIMIT_FSIZE, "a file can be at most", "f"), (resource.RLIMIT_AS, "memory is limited to", "v"))
    for limit, what, letter in limits:
        if (size := resource.getrlimit(limit)[0]) != resource.RLIM_INFINITY:
            found.append(f"{what} {size >> 10} KiB (ulimit -{letter})")
    return ", ".join(filter(None, found))
