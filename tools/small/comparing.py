"""One small model here and in ONNX Runtime: results, and the latency of a run on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import clgraph
from clgraph.errors import ClgraphError
from tools.small.made import feeds_of

WARM = 1000
"""Runs in front of those that are timed: until plans are made and programs of what comes again are compiled."""

BLOCK_SECONDS = 2e-3
"""Of a block of one of the two, which take turns."""

FEW = 20
"""Of runs, one in so many takes less than what is reported: the least would be the luckiest."""


@dataclass(frozen=True)
class Comparison:
    """What a model takes, in seconds a run; what is wrong with it, if anything is."""

    name: str
    seconds: float = 0.0
    theirs: float = 0.0
    wrong: str = ""

    @property
    def excess(self) -> float:
        """How much longer than ONNX Runtime's a run is, in us."""
        return (self.seconds - self.theirs) * 1e6


def compare(path: Path, seconds: float) -> Comparison:
    """Compare the model at *path*; measure for so many *seconds*."""
    feeds, options = feeds_of(path), onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        wanted = session.run(None, feeds)
    except Exception as error:  # of any class
        return Comparison(path.stem, wrong=f"not run by ONNX Runtime: {str(error)[:80]}")
    try:
        with clgraph.compile(path, threads=1) as model:
            first = list(model.run(feeds).values())
            for _ in range(WARM):
                model.run(feeds)
            later = list(model.run(feeds).values())
            ours, theirs = _latencies(lambda: model.run(feeds), lambda: session.run(None, feeds), seconds)
    except ClgraphError as error:
        return Comparison(path.stem, wrong=f"refused: {error}")
    wrong = differs(first, wanted) or differs(later, wanted)
    return Comparison(path.stem, ours, theirs, wrong)


def _latencies(*calls: Any) -> tuple[float, float]:
    *runs, seconds = calls
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    count = max(5, int(BLOCK_SECONDS / max(_least(runs[0]), 1e-6)))
    while not times[1] or time.perf_counter() < end:
        for run, found in zip(runs, times, strict=True):
            for _ in range(count):
                begin = time.perf_counter()
                run()
                found.append(time.perf_counter() - begin)
    ours, theirs = (sorted(found)[len(found) // FEW] for found in times)
    return ours, theirs


def _least(run: Callable[[], Any]) -> float:
    found = []
    for _ in range(5):
        begin = time.perf_counter()
        run()
        found.append(time.perf_counter() - begin)
    return min(found)


def differs(ours: Any, theirs: Any) -> str:
    """Return in what a result of ours is another one than theirs; nothing where they agree."""
    if isinstance(theirs, np.ndarray):
        return _arrays_differ(np.asarray(ours), theirs)
    if isinstance(theirs, Mapping):
        if list(ours) != list(theirs):
            return f"keys {list(ours)[:4]}, not {list(theirs)[:4]}"
        return differs(list(ours.values()), list(theirs.values()))
    if isinstance(theirs, Sequence) and not isinstance(theirs, str):
        if len(ours) != len(theirs):
            return f"{len(ours)} values, not {len(theirs)}"
        return next(filter(None, map(differs, ours, theirs)), "")
    same = ours == theirs or (ours is not None and theirs is not None and np.allclose(ours, theirs, 1e-3, 1e-4))
    return "" if same else f"{ours}, not {theirs}"


def _arrays_differ(ours: Any, theirs: Any) -> str:
    if ours.shape != theirs.shape or (ours.dtype != theirs.dtype and not theirs.dtype.hasobject):
        return f"{ours.dtype}{list(ours.shape)}, not {theirs.dtype}{list(theirs.shape)}"
    if theirs.dtype.kind != "f":
        return "" if np.array_equal(ours, theirs) else f"{ours.ravel()[:4]}, not {theirs.ravel()[:4]}"
    close = np.isclose(ours, theirs, 1e-3, 1e-4, equal_nan=True)
    return "" if close.all() else f"{ours[~close][:4]}, not {theirs[~close][:4]}"
