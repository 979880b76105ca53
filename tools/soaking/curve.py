"""The curve of a process: memory, buffers, threads and files, taken while nothing runs; and whether they grow."""

from __future__ import annotations

import csv
import ctypes
import gc
import math
import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from clgraph.runtime.memory import Memory

MIB = 1 << 20
_M_ARENA_MAX = -8
ALLOWED = {"rss_mib": 24.0, "buffer_mib": 1.0, "buffers": 8.0, "threads": 1.0, "files": 1.0}
"""What a curve may rise by. Of memory: what the allocator of the C library leaves open at the ends of its heaps, a few
MiB for each thread that was ever there at once; of buffers, those of requests that were the first of their shape."""
FALSE_ALARMS = 1e-3
"""How many soaks in which nothing grows are said to grow, with any noise that one sample does not share with others."""
WARM = 1 / 3
"""Of the curve, in which everything is met for the first time."""


@dataclass(frozen=True)
class Sample:
    """One moment: *runs* and *errors* until then, *minutes* since the start."""

    minutes: float
    runs: int
    errors: int
    rss_mib: float
    buffer_mib: float
    buffers: int
    threads: int
    files: int

    def __str__(self) -> str:
        return (
            f"{self.minutes:6.1f} min  {self.runs:8d} runs  {self.errors:6d} errors  {self.rss_mib:7.1f} MiB  "
            f"{self.buffers:4d} buffers, {self.buffer_mib:.1f} MiB  {self.threads:3d} threads  {self.files:3d} files"
        )


class Alive:
    """The allocations of devices that there are."""

    def __init__(self) -> None:
        """Count those that are made from now on."""
        self._all: weakref.WeakSet[Memory] = weakref.WeakSet()
        begin, known = Memory.__init__, self._all

        def counted(held: Memory, *args: Any, **options: Any) -> None:
            begin(held, *args, **options)
            known.add(held)

        Memory.__init__ = counted  # type: ignore[method-assign]

    def count(self) -> tuple[int, int]:
        """Return how many there are, and their bytes."""
        held = list(self._all)
        return len(held), sum(m.nbytes for m in held)


def sample(minutes: float, runs: int, errors: int, alive: Alive) -> Sample:
    """Take what nobody refers to away, and return what is left."""
    gc.collect()
    _trim()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    count, nbytes = alive.count()
    return Sample(
        round(minutes, 3),
        runs,
        errors,
        round(pages * os.sysconf("SC_PAGESIZE") / MIB, 2),
        round(nbytes / MIB, 2),
        count,
        threading.active_count(),
        len(os.listdir("/proc/self/fd")),
    )


def few_heaps() -> None:
    """Let the threads of the process share two of glibc's heaps: one for each thread hides a leak behind its ends."""
    if hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_M_ARENA_MAX, 2)


def _trim() -> None:
    """Let glibc give back what is free."""
    if hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def growth(curve: Sequence[Sample]) -> list[str]:
    """Say what has grown behind the first third, for sure by more than is allowed."""
    found = []
    for name, allowed in ALLOWED.items():
        least, likely = rise([getattr(s, name) for s in _judged(curve)])
        if least > allowed:
            found.append(f"{name} has grown by {likely:.3g}, for sure by {least:.3g}; by {allowed:g} it may")
    return found


def can_judge(curve: Sequence[Sample]) -> bool:
    """Whether the samples are enough for :func:`growth` to be sure of anything."""
    return _rank(len(_judged(curve))) >= 0


def rise(values: Sequence[float]) -> tuple[float, float]:
    """Return what *values* have risen by from first to last: for sure, and most likely; minus infinity where unknown.

    They are the least of a confidence interval and the median of the slopes between all pairs, which no outliers move
    (Theil and Sen; Sen, Estimates of the regression coefficient based on Kendall's tau, 1968, section 4).
    """
    rank = _rank(len(values))
    if rank < 0:
        return -math.inf, -math.inf
    y = np.asarray(values, np.float64)
    first, second = np.triu_indices(len(y), 1)
    slopes = np.sort((y[second] - y[first]) / (second - first)) * (len(y) - 1)
    return float(slopes[rank]), float(np.median(slopes))


def _judged(curve: Sequence[Sample]) -> Sequence[Sample]:
    return curve[round(len(curve) * WARM) :]


def _rank(count: int) -> int:
    """Return the place, among the sorted slopes between *count* values, of the one that the true slope exceeds.

    Negative where there is none.
    """
    if count < 2:
        return -1
    deviations = NormalDist().inv_cdf(1 - FALSE_ALARMS / len(ALLOWED))
    spread = deviations * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return math.floor((count * (count - 1) / 2 - spread) / 2)


def write(curve: Sequence[Sample], path: Path) -> list[Path]:
    """Write *curve* to *path*, and a picture beside it where matplotlib is there; return what was written."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, [f.name for f in fields(Sample)])
        rows.writeheader()
        rows.writerows(asdict(s) for s in curve)
    try:
        from tools.benchmark.plots import figure_of

        figure, axes = figure_of(7.0, 3.6)
    except ImportError:
        return [path]
    minutes = [s.minutes for s in curve]
    axes.plot(minutes, [s.rss_mib for s in curve], label="memory of the process, MiB")
    axes.plot(minutes, [s.buffers for s in curve], label="buffers")
    axes.plot(minutes, [s.buffer_mib for s in curve], label="bytes of them, MiB")
    axes.plot(minutes, [s.threads for s in curve], label="threads")
    axes.plot(minutes, [s.files for s in curve], label="open files")
    axes.set_xlabel("minutes")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    picture = path.with_suffix(".svg")
    figure.savefig(picture)
    return [path, picture]
