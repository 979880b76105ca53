"""Rates of a device: what a worker multiplies and what workers read a second, each the best of some runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from clgraph.runtime.canary_kernels import THIN, Canary, Run

_CACHED_BYTES = 8 << 20
"""More than the cache of one core holds, less than one that cores share."""
_CHAINS = 12
_LOADED_CHAINS = 14
_TILES = 4.0 * 16 * 32 * 16
"""Products of bfloat16 in a round of canary_amx_bf16_products.cl."""
_RUN_SECONDS, _RUNS, _MOST_RUNS = 0.02, 7, 21
_SIDE_BY_SIDE = 1.25
"""A run's wall time over that of each worker's, below which the workers ran at once."""
_FURTHER_SECONDS = 1.0
"""After which no further runs are made: those of an emulator take seconds each."""


def measure(canary: Canary) -> dict[str, Any]:
    """Return the multiplications and additions a second of one worker while all work, and bytes a second by workers."""
    groups = canary.workers * (THIN[0] if canary.thin else 1)
    items = groups * (THIN[1] if canary.thin else 1)
    y = np.zeros(items * canary.simd, np.float32)
    held = canary.upload(y)

    def products(rounds: int) -> Run:
        return canary.run("products", groups, held, np.float32(0.5), np.float32(1.0), np.int32(rounds))

    rounds = _long_enough(lambda count: products(count).worker, 1024)
    seconds = _side_by_side(lambda: products(rounds))
    if not np.all(np.abs(canary.read(held, y) - 2.0) <= 2.0**-22):
        raise ValueError("it computes other products than it should")
    flops = 2.0 * _CHAINS * rounds * canary.simd * items / seconds / canary.workers
    values = canary.upload(np.ones(canary.bytes // 4, np.float32))
    found = {"worker_flops": flops, "bandwidths": _bandwidths(canary, values)}
    if not canary.thin:
        found["cached"] = _cached(canary, values)
        found["loaded_products"] = _loaded(canary, lambda: products(rounds).worker, rounds)
    if canary.fetches:
        found["fetching"] = _fetching(canary, values)
    if canary.pairs_bytes:
        words = _side_by_side(lambda: canary.run("byte_products", groups, held, np.int32(rounds)))
        found["byte_products"] = 4.0 * seconds / max(words, 1e-3 * seconds)
    if "bf16" in canary.further:
        # A round of pairs takes one to four times as long as one of floats.
        fewer = max(1, rounds // 4)
        pairs = _side_by_side(lambda: canary.run("bf16_products", groups, held, np.int32(fewer)))
        found["bf16_products"] = 2.0 * seconds * (fewer / rounds) / max(pairs, 1e-3 * seconds)
    if "amx_bf16" in canary.further:
        fewer = max(1, rounds // 16)
        # The median: for seconds the unit takes up to four times as long, where other threads use the core, those of
        # other guests maybe (Emerald Rapids).
        tiles = median(canary.run("amx_bf16_products", groups, held, np.int32(fewer)).worker for _ in range(_RUNS))
        done = _TILES * fewer / (_CHAINS * canary.simd * rounds)
        found["amx_products"] = done * seconds / max(tiles, 1e-3 * seconds)
    return found


def _side_by_side(run: Callable[[], Run]) -> float:
    """Return a worker's seconds of the run that was over first, of more runs where no workers ran at once.

    Where one thread does the work of two, because the other was not woken or has no core, the share of each is half of
    what its work takes.
    """
    runs = [run() for _ in range(_RUNS)]
    while len(runs) < _MOST_RUNS and sum(took.wall for took in runs) < _FURTHER_SECONDS:
        if min(runs).wall <= _SIDE_BY_SIDE * min(runs).worker:
            break
        runs.append(run())
    return min(runs).worker


def _bandwidths(canary: Canary, x: Any) -> list[tuple[int, float]]:
    values, found = canary.bytes // 4, []
    for workers in [canary.workers] if canary.thin else _doubling(canary.workers):
        # Four vectors a work-item at least.
        groups = min(workers * THIN[0], values // (4 * THIN[1])) if canary.thin else workers
        items = groups * (THIN[1] if canary.thin else 1)
        y = canary.upload(np.zeros(items * canary.simd, np.float32))
        count = values // canary.simd // items // 4 * 4
        first, step = (1, items) if canary.thin else (count, 1)
        args = (x, y, np.int32(first), np.int32(step), np.int32(count))
        seconds = _side_by_side(partial(canary.run, "read", groups, *args))
        found.append((workers, 4.0 * count * canary.simd * items / seconds))
    return found


def _cached(canary: Canary, x: Any) -> float:
    """Return the bytes a second that a worker reads of what it has read before, and its own cache does not hold."""
    count = min(canary.bytes, _CACHED_BYTES) // 4 // canary.simd // 4 * 4
    args = (x, canary.upload(np.zeros(canary.simd, np.float32)), np.int32(count), np.int32(1), np.int32(count))
    seconds = min(canary.run("read", 1, *args).worker for _ in range(_MOST_RUNS))
    return float(4 * count * canary.simd / seconds)


def _loaded(canary: Canary, products: Callable[[], float], rounds: int) -> float:
    """Return the multiply-adds that load an operand each in the time of one of those that *products* runs."""
    numbers = np.full(_LOADED_CHAINS * 16 + 16 * canary.simd, 0.5, np.float32)
    args = (canary.upload(numbers), canary.upload(np.zeros(canary.simd, np.float32)), np.int32(rounds))
    # In turn: what else a core's clock depends on changes both.
    runs = [(products(), canary.run("loaded_products", 1, *args).worker) for _ in range(_RUNS)]
    alone, loaded = (min(seconds) for seconds in zip(*runs, strict=True))
    return float(_LOADED_CHAINS / _CHAINS * alone / max(loaded, 1e-3 * alone))


def _fetching(canary: Canary, x: Any) -> float:
    """Return how many times as fast a worker reads *x* between much arithmetic when lines are fetched ahead."""
    count = canary.bytes // 4 // canary.simd // 4 * 4
    y = canary.upload(np.zeros(canary.simd, np.int32))

    def seconds(ahead: int) -> float:
        return canary.run("stream", 1, x, y, np.int32(count), np.int32(ahead)).worker

    runs = [(seconds(0), seconds(1))]
    while len(runs) < _RUNS and sum(map(sum, runs)) < _FURTHER_SECONDS:
        runs.append((seconds(0), seconds(1)))
    return min(left for left, _ in runs) / max(min(fetched for _, fetched in runs), 1e-9)


def _doubling(most: int) -> list[int]:
    found = [1]
    while found[-1] * 2 < most:
        found.append(found[-1] * 2)
    return found if most == 1 else [*found, most]


def _long_enough(run: Callable[[int], float], rounds: int) -> int:
    """Return rounds after which a run takes long enough to be timed; a slow device gets few of them."""
    run(1)
    while (seconds := run(rounds)) < _RUN_SECONDS and rounds < 1 << 26:
        rounds *= max(2, min(64, int(_RUN_SECONDS / max(seconds, 1e-6))))
    return rounds
