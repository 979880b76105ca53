"""Measuring how many bytes a second a device reads from its memory."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from clgraph.runtime.device import find_device
from clgraph.runtime.engine import Engine

_CPU_BYTES = 1 << 28
"""Of each thread: far above any cache."""
_PASSES = 5
"""A pass ends with the slowest thread: what the machine does meanwhile is no share of its bandwidth."""
_GPU_BYTES = 1 << 30
_RUNS = 10
_ITEMS = 1 << 18
"""Work items that read: as many as a large GPU has at once."""

_READ = """__kernel void read_all(__global const float4* x, __global float* sums, const int rounds) {
  float4 sum = 0.0f;
  #pragma unroll 8
  for (int i = 0; i < rounds; i++) sum += x[(size_t)i * get_global_size(0) + get_global_id(0)];
  sums[get_global_id(0)] = sum.x + sum.y + sum.z + sum.w;
}"""


def read_bandwidth(device: str, threads: int) -> float:
    """Return how many bytes a second *device* reads: on a CPU so many threads, else a kernel.

    Raises:
        ClgraphError: There is no such device, or it has not the memory.
    """
    found = find_device(device)
    return _of_threads(threads) if found.info.kind in ("cpu", "host") else kernel_bandwidth(Engine(found))


def kernel_bandwidth(engine: Engine) -> float:
    """Return how many bytes a second a kernel reads that adds up what is far above any cache, every element once."""
    rounds = _GPU_BYTES // (16 * _ITEMS)
    held = engine.upload(np.repeat(np.arange(rounds, dtype=np.float32), 4 * _ITEMS), "what is read")
    sums = engine.allocate(_ITEMS * 4, "sums")
    kernel = engine.kernel(_READ, "read_all", [held, sums, np.int32(rounds)])
    once = kernel.on(engine.stream, (_ITEMS,), (256,))
    best = 0.0
    for _ in range(3):
        once()
        engine.stream.finish()
        start = time.perf_counter()
        for _ in range(_RUNS):
            once()
        engine.stream.finish()
        best = max(best, _RUNS * held.nbytes / (time.perf_counter() - start))
    return best


def _of_threads(threads: int) -> float:
    """Return how many bytes a second *threads* threads read, each of memory of its own, in the best of some passes."""
    parts = [np.ones(_CPU_BYTES // 4, np.float32) for _ in range(threads)]
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(np.max, parts))
        for _ in range(_PASSES):
            start = time.perf_counter()
            list(pool.map(np.max, parts))
            best = min(best, time.perf_counter() - start)
    return threads * _CPU_BYTES / best
