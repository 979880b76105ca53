"""Number of CPU cores available to the process."""

from __future__ import annotations

import os
from pathlib import Path


def usable_cores(root: Path = Path("/")) -> int:
    """Return the cores of the affinity mask, cut to the CPU quota of the process's control groups; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for path in _groups(root) if (quota := _quota(path)) is not None]
    return max(1, min([cores, *(int(quota) for quota in quotas)]))


def _groups(root: Path) -> list[Path]:
    """Return the folders of the process's control groups, from its own up to the root, of version 2 and 1."""
    listing = root / "proc/self/cgroup"
    if not listing.is_file():
        return []
    folders: list[Path] = []
    for line in listing.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        own = top / path.lstrip("/")
        folders += [own, *(p for p in own.parents if p.is_relative_to(top))]
    return list(dict.fromkeys(folders))


def _quota(folder: Path) -> float | None:
    """Return the cores that the group in *folder* may use, ``None`` for no limit."""
    if (file := folder / "cpu.max").is_file():
        quota, period = file.read_text(encoding="ascii").split()
        return None if quota == "max" else int(quota) / int(period)
    if (file := folder / "cpu.cfs_quota_us").is_file():
        microseconds = int(file.read_text(encoding="ascii"))
        period_file = folder / "cpu.cfs_period_us"
        return None if microseconds <= 0 else microseconds / int(period_file.read_text(encoding="ascii"))
    return None
