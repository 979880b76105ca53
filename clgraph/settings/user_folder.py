"""The cache folder of the user, by the rule of the operating system."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from clgraph.errors import OptionError
from clgraph.handlers import pass_on


def homeless_cache_dir() -> Path | None:
    """Return the cache folder of a user that has no home folder, one below the temporary folder; ``None`` for others.

    Raises:
        OptionError: There is no temporary folder either.
    """
    try:
        if not _user_cache_dir().startswith("~"):
            return None
    except RuntimeError as error:  # newer versions of platformdirs raise it where older ones leave the "~"
        pass_on(error)
    # Imported where it is needed: it takes longer than everything else here.
    import tempfile

    try:
        return Path(tempfile.gettempdir(), f"clgraph-{os.getuid()}")
    except OSError as error:
        what = f"this user has neither a home folder nor a temporary one ({error})"
        raise OptionError(f"{what}: name one for the cache by CLGRAPH_CACHE_DIR") from error


def user_cache_dir() -> Path:
    """Return the cache folder where none is named. Raises ``OptionError`` where a user has no folder at all."""
    return homeless_cache_dir() or Path(_user_cache_dir())


def _user_cache_dir() -> str:
    """Return the user's cache folder for clgraph by the rule of the system; it begins with ``~`` without a home."""
    if sys.platform == "linux":
        named = os.environ.get("XDG_CACHE_HOME", "").strip()
        return os.path.join(named if os.path.isabs(named) else os.path.expanduser("~/.cache"), "clgraph")
    # Not imported where the rule is that short: with all that it imports it takes 4 ms.
    import platformdirs

    return platformdirs.user_cache_dir("clgraph")
