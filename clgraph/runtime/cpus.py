"""Number of CPU cores available to the process."""

from __future__ import annotations

import os
from pathlib import Path

from clgraph.handlers import pass_on

_PERIOD = 100_000
"""Microseconds in which a control group may use its quota, if it says nothing else: the default of Linux."""


def usable_cores(root: Path = Path("/")) -> int:
    """Return the cores of the affinity mask, cut to the CPU quota of the process's control groups; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for group in _groups(str(root)) if (quota := _quota(group)) is not None]
    return max(1, min([cores, *(int(quota) for quota in quotas)]))


def _groups(root: str) -> list[str]:
    """Return the folders of the process's control groups, from its own up to the root, of version 2 and 1."""
    listing = _content(os.path.join(root, "proc/self/cgroup"))
    folders: list[str] = []
    for line in (listing or b"").decode("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = os.path.join(root, "sys/fs/cgroup", *["cpu"] * bool(controllers))
        own = path.strip("/")
        while own:
            folders.append(os.path.join(top, own))
            own = own.rpartition("/")[0]
        folders.append(top)
    return list(dict.fromkeys(folders))


def _quota(folder: str) -> float | None:
    """Return the cores that the group in *folder* may use, ``None`` for no limit."""
    if (content := _content(f"{folder}/cpu.max")) is not None:
        quota, period = content.split()
        return None if quota == b"max" else int(quota) / int(period)
    if (content := _content(f"{folder}/cpu.cfs_quota_us")) is not None:
        microseconds = int(content)
        return None if microseconds <= 0 else microseconds / int(_content(f"{folder}/cpu.cfs_period_us") or _PERIOD)
    return None


def _content(path: str) -> bytes | None:
    """Return what a file holds, ``None`` where there is none or it cannot be read: a container may hide it."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        pass_on(error)
        return None
