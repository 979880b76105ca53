"""Measuring runs: percentiles, several runtimes in turn, several clones at once, memory of the process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from clgraph.core.frozen import frozen

Run = Callable[[int], object]
"""Runs a model once, on the inputs of this number in the cycle."""

_ROUNDS = 10
_PAUSE_SECONDS = 0.05


@frozen
class Latencies:
    """Seconds of single runs, and which inputs of the cycle each had.

    Attributes:
        seconds: In the order of the runs.
        inputs: For each run, the number of its inputs.
    """

    seconds: tuple[float, ...]
    inputs: tuple[int, ...]

    def percentile(self, percent: float, inputs: int | None = None) -> float:
        """Return the seconds that *percent* of the runs did not exceed; of one number of inputs where it is given."""
        pairs = zip(self.seconds, self.inputs, strict=True)
        return float(np.percentile([s for s, i in pairs if inputs is None or i == inputs], percent))

    @property
    def mean(self) -> float:
        """Seconds of a run on average."""
        return float(np.mean(self.seconds))


@frozen
class Budget:
    """How long to measure: for so many seconds, or so many runs where *iterations* are given."""

    seconds: float
    iterations: int | None = None


def interleaved(
    runs: Sequence[Run], cycle: int, budget: Budget, advance: Callable[[float], None]
) -> tuple[tuple[Latencies, ...], tuple[tuple[float, ...], ...]]:
    """Run each of *runs* in blocks, in turn, so that a change of the machine's speed meets all of them.

    Before each block is a pause where there are several, in which other runtimes' threads come to rest.

    Args:
        cycle: Numbers of inputs that are used one after the other.
        budget: For each of *runs*.
        advance: Is told the seconds or runs that are over, for all together.

    Returns:
        For each of *runs*, its latencies, and the median of each of its blocks.
    """
    seconds: list[list[float]] = [[] for _ in runs]
    inputs: list[list[int]] = [[] for _ in runs]
    medians: list[list[float]] = [[] for _ in runs]
    rounds = _ROUNDS if budget.iterations is None else min(_ROUNDS, budget.iterations)
    began = time.perf_counter()
    for number in range(rounds):
        for k in range(len(runs))[:: 1 if number % 2 == 0 else -1]:
            if len(runs) > 1:
                time.sleep(_PAUSE_SECONDS)
                runs[k](len(seconds[k]) % cycle)
            goal = _goal(budget, number, rounds)
            block: list[float] = []
            spent = 0.0
            while not (
                len(block) >= goal.iterations if goal.iterations is not None else block and spent >= goal.seconds
            ):
                which = len(seconds[k]) % cycle
                start = time.perf_counter()
                runs[k](which)
                block.append(time.perf_counter() - start)
                spent += block[-1]
                seconds[k].append(block[-1])
                inputs[k].append(which)
                advance(sum(map(len, seconds)) if goal.iterations is not None else time.perf_counter() - began)
            medians[k].append(float(np.median(block)))
    latencies = tuple(Latencies(tuple(s), tuple(i)) for s, i in zip(seconds, inputs, strict=True))
    return latencies, tuple(map(tuple, medians))


def _goal(budget: Budget, number: int, rounds: int) -> Budget:
    """Return the share of *budget* that a round has."""
    if budget.iterations is None:
        return Budget(budget.seconds / rounds)
    return Budget(0, budget.iterations * (number + 1) // rounds - budget.iterations * number // rounds)


def at_once(
    runs: Sequence[Run], cycle: int, budget: Budget, advance: Callable[[float], None]
) -> tuple[Latencies, float]:
    """Run all *runs* at the same time, a thread each; return their latencies together, and runs per second of all.

    Raises:
        ClgraphError: A run fails; the others stop.
    """
    stop = threading.Event()
    began = time.perf_counter()
    share = None if budget.iterations is None else -(-budget.iterations // len(runs))

    def work(run: Run) -> tuple[list[float], list[int]]:
        seconds: list[float] = []
        inputs: list[int] = []
        while not stop.is_set() and (share is None or len(seconds) < share):
            which = len(seconds) % cycle
            start = time.perf_counter()
            run(which)
            end = time.perf_counter()
            seconds.append(end - start)
            inputs.append(which)
            advance(end - began if share is None else len(seconds) * len(runs))
            if share is None and end - began >= budget.seconds:
                break
        return seconds, inputs

    with ThreadPoolExecutor(len(runs), "clgraph-bench") as pool:
        futures = [pool.submit(work, run) for run in runs]
        try:
            found = [future.result() for future in futures]
        finally:
            stop.set()
    elapsed = time.perf_counter() - began
    latencies = Latencies(
        tuple(s for seconds, _ in found for s in seconds), tuple(i for _, inputs in found for i in inputs)
    )
    return latencies, len(latencies.seconds) / elapsed


def resident_bytes() -> int | None:
    """Return how much memory the process has now; ``None`` where the system does not tell (Linux does)."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    import resource

    return pages * resource.getpagesize()


def peak_bytes() -> int | None:
    """Return how much memory the process has had at most; ``None`` where the system does not tell (Windows)."""
    try:
        import resource
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
