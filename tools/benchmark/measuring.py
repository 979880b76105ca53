"""Measuring the same model with several runtimes in one process, in turn."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import clgraph
from clgraph.debugging.compare import relative_distance
from clgraph.runtime.device import find_device
from tools.benchmark.cases import load
from tools.benchmark.peers import RUNTIMES, Options, Run, installed


@dataclass(frozen=True)
class Schedule:
    """How often everything is run.

    Attributes:
        rounds: Blocks of each runtime.
        runs: Most runs of a block that count.
        warm: Runs of a block that do not.
        seconds: What a block is to last; it has fewer runs, but 3, where they take longer.
        pause: Seconds before each block, for the other runtimes' threads to come to rest.
        processor: Whether times are the processor's, of all threads: what other processes do then disturbs less.
    """

    rounds: int = 7
    runs: int = 20
    warm: int = 2
    seconds: float = 0.4
    pause: float = 0.05
    processor: bool = False

    @property
    def clock(self) -> Callable[[], float]:
        """What tells the time, in seconds."""
        return time.process_time if self.processor else time.perf_counter


@dataclass(frozen=True)
class Figures:
    """What was measured of one model with one number of threads; seconds, by runtime.

    Attributes:
        first: Of compiling and the first run.
        median: The median of the blocks' medians.
        best: The fastest run.
        ratios: clgraph's block median over the other runtime's, round by round.
        errors: Worst difference from the other runtime's results, relative to the largest value.
    """

    set: str
    model: str
    threads: int
    shapes: dict[str, list[int]]
    runs: int
    load: float
    first: dict[str, float]
    median: dict[str, float]
    best: dict[str, float]
    ratios: dict[str, list[float]]
    errors: dict[str, float]

    def ratio(self, peer: str) -> float:
        """Return the median of the rounds' ratios."""
        return statistics.median(self.ratios[peer])

    def best_ratio(self, peer: str) -> float:
        """Return the ratio of the fastest runs, which other processes disturb least."""
        return self.best["clgraph"] / self.best[peer]


def measure(set_name: str, model_name: str, peers: Sequence[str], options: Options, schedule: Schedule) -> Figures:
    """Compile one model with every runtime and run them in turn.

    Raises:
        ClgraphError: The model cannot be had or compiled.
    """
    model, feeds = load(model_name)
    runners, first, results = dict[str, Run](), dict[str, float](), dict[str, list[NDArray[Any]]]()
    for runtime in ["clgraph", *peers]:
        start = time.perf_counter()
        runners[runtime] = RUNTIMES[runtime](model, feeds, options)
        results[runtime] = runners[runtime]()
        first[runtime] = time.perf_counter() - start
    slowest = max(_block(run, 1, 1, schedule.clock)[0] for run in runners.values())
    runs = max(min(schedule.runs, 3), min(schedule.runs, int(schedule.seconds / slowest)))
    rounds = []
    for i in range(schedule.rounds):
        times = {}
        for runtime in list(runners) if i % 2 == 0 else list(runners)[::-1]:
            time.sleep(schedule.pause)
            times[runtime] = _block(runners[runtime], schedule.warm, runs, schedule.clock)
        rounds.append(times)
    medians = {r: [statistics.median(times[r]) for times in rounds] for r in runners}
    return Figures(
        set=set_name,
        model=model_name,
        threads=options.threads,
        shapes={name: list(array.shape) for name, array in feeds.items()},
        runs=runs,
        load=os.getloadavg()[0],
        first=first,
        median={r: statistics.median(medians[r]) for r in runners},
        best={r: min(min(times[r]) for times in rounds) for r in runners},
        ratios={p: [a / b for a, b in zip(medians["clgraph"], medians[p], strict=True)] for p in peers},
        errors={p: _error(results["clgraph"], results[p]) for p in peers},
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(math.log(v) for v in values))


def _block(run: Run, warm: int, runs: int, clock: Callable[[], float]) -> list[float]:
    """Return the seconds of *runs* runs, after *warm* that do not count."""
    for _ in range(warm):
        run()
    times = []
    for _ in range(runs):
        start = clock()
        run()
        times.append(clock() - start)
    return times


def _error(ours: list[NDArray[Any]], theirs: list[NDArray[Any]]) -> float:
    return max(map(relative_distance, ours, theirs))


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def conditions(device: str, peers: Sequence[str], spinning: bool, schedule: Schedule) -> dict[str, Any]:
    """Return what a figure means nothing without.

    Raises:
        DeviceError: There is no such device.
    """
    found = find_device(device)
    packages = ("numpy", "onnx", "pyopencl", "pocl-binary-distribution", *peers)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.processor() or platform.machine(),
        "cpu": _cpu(),
        "cores": usable_cores(),
        "load": os.getloadavg()[0],
        "device": str(found),
        "driver": found.info.driver,
        "notes": list(found.notes),
        "spinning": f"idle threads of the others {'spin, their default' if spinning else 'sleep'}",
        "times": "the processor's, of all threads" if schedule.processor else "as a clock on the wall tells them",
        "rounds": schedule.rounds,
        "pause": schedule.pause,
        "versions": {"clgraph": clgraph.__version__, **{p: v for p in packages if (v := installed(p))}},
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
