"""Entry point of the canary's process: ``python -m clgraph.runtime.canary_child``, work on stdin, verdict on stdout.

Values first: kernels with everything that compilers get wrong when they take a CPU for another one. Then rates: what a
worker multiplies and what workers read a second, each the best of some runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from clgraph.errors import DeviceError
from clgraph.runtime import child, driver, handles, process
from clgraph.runtime.instruction_sets import InstructionSet
from clgraph.runtime.kernels import Kernel
from clgraph.runtime.wheel import impose
from clgraph.selector.sources import expand
from clgraph.settings import settings

_COUNT = 256
"""Elements of the values."""
_READ_BYTES, _THIN_READ_BYTES = 128 << 20, 512 << 20
"""More than the caches of most CPUs, and of GPUs, hold; of a GPU so much that its launch does not count."""
_CACHED_BYTES = 8 << 20
"""More than the cache of one core holds, less than one that cores share."""
_CHAINS = 12
_THIN = 256, 64
"""Work-groups a compute unit, and their size, where work-items are thin."""
_RUN_SECONDS, _RUNS, _MOST_RUNS = 0.02, 7, 21
_SIDE_BY_SIDE = 1.25
"""A run's wall time over that of each worker's, below which the workers ran at once."""
_FURTHER_SECONDS = 1.0
"""After which no further runs are made: those of an emulator take seconds each."""

_Array = np.ndarray[tuple[int, ...], np.dtype[Any]]


class Run(NamedTuple):
    """What a run took, by the clock and each worker, in seconds; less is first what was over sooner."""

    wall: float
    worker: float


class Canary:
    """The kernels, built for one device."""

    def __init__(self, handle: Any, record: InstructionSet, workers: int) -> None:
        """Build them for a ``pyopencl.Device``; raises the driver's error where that fails."""
        self.cl = driver.load()
        self.thin = handles.kind(handle) != "cpu"
        self.simd = 1 if self.thin else record.simd
        self.further = sorted(_FURTHER.keys() & handles.features(handle, record))
        self.workers = handle.max_compute_units if self.thin else workers
        self.context = self.cl.Context([handle])
        self.queue = self.cl.CommandQueue(self.context)
        wanted = _THIN_READ_BYTES if self.thin else _READ_BYTES
        self.bytes = min(wanted, handle.max_mem_alloc_size // 4, handle.global_mem_size // 8)
        seen: set[str] = set()
        pairs, self.fetches = "bf16" in self.further, handles.has_clang(handle)
        names = ["values", "products", "read", *self.further, *["bf16_products"] * pairs, *["stream"] * self.fetches]
        text = f"#define SIMD {self.simd}\n" + "".join(expand(f"canary/canary_{name}.cl", seen) for name in names)
        options = "-cl-std=CL1.2 -cl-mad-enable" + " -DCLGRAPH_PREFETCH" * self.fetches
        self.program = self.cl.build(self.context, handle, text, options)
        self.abi_warnings = self.cl.log_of(self.program, handle).count("changes the ABI")

    def upload(self, array: _Array) -> Any:
        """Return a buffer with the bytes of *array*."""
        flags = self.cl.mem_flags
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array)

    def run(self, name: str, groups: int, *args: Any) -> Run:
        """Run a kernel with *groups* work-groups and wait; return the seconds it took.

        Of a worker that is, on a CPU, its share of the threads' CPU time, which other processes do not lengthen.
        """
        kernel = Kernel(self.cl, self.program, f"canary_{name}", args)
        size = _THIN[1] if self.thin and name != "values" else 1
        start, used = time.perf_counter(), time.process_time()
        kernel.launch_after(self.queue, (groups * size,), (size,))(()).wait()
        wall, used = time.perf_counter() - start, time.process_time() - used
        return Run(wall, wall if self.thin else used / min(groups, self.workers))

    def read(self, buffer: Any, like: _Array) -> _Array:
        """Return the content of *buffer* as an array like *like*."""
        found = np.empty_like(like)
        self.cl._enqueue_read_buffer(self.queue, buffer, found)
        return found


def wrong(canary: Canary) -> str:
    """Return what the device computes wrongly, or an empty text."""
    if canary.abi_warnings:
        times = canary.abi_warnings
        return f"its compiler passes vectors in other places than its built-in library ({times} warnings)"
    x = np.linspace(-6, 6, _COUNT, dtype=np.float32)
    n = np.arange(_COUNT, dtype=np.int32) * 0x01020305 ^ 0x55AA
    y, j = np.zeros((4, _COUNT), np.float32), np.zeros((8, _COUNT), np.int32)
    held = [canary.upload(a) for a in (x, n, y, j)]
    canary.run("values", _COUNT // canary.simd, *held, np.int32(_COUNT))
    floats, integers = canary.read(held[2], y), canary.read(held[3], j)
    for row, want in enumerate(_floats(x.astype(np.float64), n)):
        with np.errstate(invalid="ignore"):
            good = np.abs(floats[row] - want) <= 8 * np.spacing(np.abs(want).astype(np.float32))
        if not good.all():
            at = int(np.argmin(good))
            return f"it computes {floats[row, at]!s} where {want[at]:.7g} is right (row {row} of canary_values)"
    for row, exact in enumerate(_integers(x, n)):
        if not np.array_equal(integers[row], exact):
            at = int(np.argmax(integers[row] != exact))
            return f"it computes {integers[row, at]} where {exact[at]} is right (integers {row} of canary_values)"
    return next(filter(None, (_FURTHER[name](canary) for name in canary.further)), "")


def _floats(x: _Array, n: _Array) -> list[_Array]:
    first = np.maximum(x, 0.25) + np.exp(-x) * (x * x + (n & 7))
    near = (np.float32(1) + np.abs(x).astype(np.float32)).astype(np.float64)
    return [first, np.sqrt(np.abs(x)) / (1 + np.abs(x)), np.log(near), np.floor(x)]


def _integers(x: _Array, n: _Array) -> list[_Array]:
    unsigned, wide = n.view(np.uint32), n.astype(np.int64)
    scaled = (x * np.float32(1e9)).astype(np.float64)
    rotated = ((unsigned << np.uint32(9)) | (unsigned >> np.uint32(23))).view(np.int32)
    bits = [f"{int(value):032b}" for value in unsigned]
    halves = np.zeros((_COUNT, 2), np.float16)
    halves[:, 0] = x
    return [
        np.trunc(np.clip(scaled, -(2.0**31), 2.0**31 - 1)).astype(np.int32),
        np.maximum(n, 3) >> (n & 7),
        np.array([len(b) - len(b.lstrip("0")) for b in bits], np.int32),
        np.array([b.count("1") for b in bits], np.int32),
        (wide * wide >> 32).astype(np.int32),
        rotated ^ (n & ~(n >> 3)),
        np.clip(np.rint(x * np.float32(50)), 0, 255).astype(np.int32),
        halves.reshape(-1).view(np.int32),
    ]


def _wrong_byte_sums(canary: Canary, *, name: str, groups: int, end: int, instruction: str) -> str:
    """Try products of unsigned bytes below *end* with signed ones, four to a sum."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, end, (32, 4)).astype(np.uint8), rng.integers(-128, 128, (32, 4)).astype(np.int8)
    acc = np.arange(32, dtype=np.int32)
    held = [canary.upload(v.reshape(-1).view(np.int32)) for v in (a, b)] + [canary.upload(acc)]
    canary.run(name, groups, *held)
    right = np.array_equal(canary.read(held[2], acc), acc + (a.astype(np.int32) * b).sum(1))
    return "" if right else f"it computes other sums by {instruction} than it should"


def _wrong_bf16(canary: Canary) -> str:
    rng = np.random.default_rng(0)
    floats = rng.standard_normal((3, 32)).astype(np.float32)
    held = [canary.upload(a) for a in floats]
    canary.run("bf16", 2, *held)
    bits = floats[:2].view(np.uint32)
    a, b = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)
    # Both halves of an element are the same number: twice its product, two additions rounded.
    want = floats[2] + 2 * a * b
    size = np.abs(floats[2]) + 2 * np.abs(a * b)
    right = (np.abs(canary.read(held[2], floats[2]) - want) <= 2 * 2.0**-24 * size).all()
    return "" if right else "it computes other sums by vdpbf16ps than it should"


def _wrong_lookups(canary: Canary) -> str:
    """Try every byte as a place in a table of 256."""
    rng = np.random.default_rng(0)
    places, entries = (rng.permutation(256).astype(np.uint8) for _ in range(2))
    found = np.zeros(256, np.uint8)
    held = [canary.upload(v.view(np.int32)) for v in (places, entries, found)]
    canary.run("vbmi", 4, *held)
    right = np.array_equal(canary.read(held[2], found), entries[places])
    return "" if right else "it finds other bytes by vpermi2b than it should"


_FURTHER: dict[str, Callable[[Canary], str]] = {
    "vnni": partial(_wrong_byte_sums, name="vnni", groups=2, end=256, instruction="vpdpbusd"),
    # Sums of two products of bytes below 128 do not saturate.
    "byte_pairs": partial(_wrong_byte_sums, name="byte_pairs", groups=4, end=128, instruction="vpmaddubsw"),
    "bf16": _wrong_bf16,
    "vbmi": _wrong_lookups,
}
"""Instructions that only some CPUs have, by the feature: what is wrong with them, or an empty text."""


def measure(canary: Canary) -> dict[str, Any]:
    """Return the multiplications and additions a second of one worker while all work, and bytes a second by workers."""
    groups = canary.workers * (_THIN[0] if canary.thin else 1)
    items = groups * (_THIN[1] if canary.thin else 1)
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
    if canary.fetches:
        found["fetching"] = _fetching(canary, values)
    if "bf16" in canary.further:
        # A round of pairs takes one to four times as long as one of floats.
        fewer = max(1, rounds // 4)
        pairs = _side_by_side(lambda: canary.run("bf16_products", groups, held, np.int32(fewer)))
        found["bf16_products"] = 2.0 * seconds * (fewer / rounds) / max(pairs, 1e-3 * seconds)
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
        groups = min(workers * _THIN[0], values // (4 * _THIN[1])) if canary.thin else workers
        items = groups * (_THIN[1] if canary.thin else 1)
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


def main() -> int:
    """Print ``{"why": "", ...}`` with the rates for a device that computes rightly, else why it must not be used.

    With ``"lasts": false`` where the next trial may say something else.
    """
    work = json.load(sys.stdin)
    child.limit(work["cpu_seconds"])
    record = InstructionSet.from_data(work["record"])
    process.serve(record)
    driver.choose_options(settings().with_(cache_dir=work["folder"]))
    cl = driver.load()
    try:
        handle = handles.named_handles().get(work["device"])
        if handle is None:
            print(json.dumps({"why": f"OpenCL shows no {work['device']} there", "lasts": False}))
            return 0
        if handles.kind(handle) == "cpu":
            child.limit_memory()
        impose(handle, record)
        canary = Canary(handle, record, work["workers"])
        why = wrong(canary)
        verdict = {"why": why} if why else {"why": "", **measure(canary)}
    except (cl.Error, DeviceError, ValueError, KeyError) as error:
        verdict = {"why": f"{error}".strip().partition("\n")[0]}
    print(json.dumps(verdict))
    return 0


if __name__ == "__main__":
    sys.exit(main())
