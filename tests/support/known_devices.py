"""Cache folders for processes that tests start: without kernels, but with what is known of the devices."""

from __future__ import annotations

import shutil
from pathlib import Path

from clgraph.settings import settings


def new_cache(folder: Path) -> Path:
    """Make a cache *folder* without kernels; return it.

    It has the verdict of the canary, which takes a process and five seconds wherever a cache has none, and the drivers'
    digests.
    """
    folder.mkdir()
    for area in ("canary", "drivers"):
        if (settings().cache_dir / area).is_dir():
            shutil.copytree(settings().cache_dir / area, folder / area, symlinks=True)
    return folder
