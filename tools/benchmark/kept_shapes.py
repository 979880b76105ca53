"""What a model takes that has met thousands of shapes: memory of the process, and what is kept of them."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

import clgraph
from tools.benchmark.cases import Feeds
from tools.benchmark.peers import Options
from tools.benchmark.streams import STREAMS, StreamCase

RUN_EVERY = 50
"""Which shapes are run as well: that touches the arena, and takes the time of all others."""
TRIES = 20
"""How many requests are drawn for a shape that is new, before batches become larger."""


@dataclass(frozen=True)
class KeptShapes:
    """A model of a stream after so many different shapes.

    Attributes:
        kept: How many of them it still had at the end.
        member_bytes: What one of those takes, about.
        binding: Seconds of one, the median.
        begin, end: MiB of the process after a hundredth of the shapes, and after all.
        collection: Seconds of a search of Python's collector at the end.
    """

    name: str
    shapes: int
    kept: int
    member_bytes: int
    binding: float
    begin: float
    end: float
    collection: float


def different(case: StreamCase, count: int) -> Iterator[Feeds]:
    """Yield *count* requests of different shapes; batches are several of the stream's where it has not as many."""
    seen: set[tuple[int, ...]] = set()
    random, times = Random(5), 1
    while len(seen) < count:
        for _ in range(TRIES):
            feeds = {n: np.concatenate([a] * times) for n, a in case.request(random).items()}
            shape = next(iter(feeds.values())).shape
            if shape not in seen:
                break
        else:
            times += 1
            continue
        seen.add(shape)
        yield feeds


def keep_shapes(name: str, count: int, options: Options) -> KeptShapes:
    """Bind *count* different shapes of the stream called *name*, and run some of them."""
    case = STREAMS[name]
    model = clgraph.compile(case.model(), options.device, threads=options.workers, config={"model_cache": 0})
    binding, begin = [], 0.0
    for number, feeds in enumerate(different(case, count)):
        start = time.perf_counter()
        model.prepare({n: a.shape for n, a in feeds.items()})
        binding.append(time.perf_counter() - start)
        if number % RUN_EVERY == 0:
            model.run(feeds)
        if number == count // 100:
            begin = _resident()
    start = time.perf_counter()
    gc.collect()
    collection = time.perf_counter() - start
    made = list(model.compiled.values())
    member = sum(s.nbytes for s in made) // len(made)
    return KeptShapes(name, count, len(made), member, statistics.median(binding), begin, _resident(), collection)


def _resident() -> float:
    """Return the MiB of memory that the process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def kept_shapes_markdown(found: list[KeptShapes]) -> str:
    """Return a table."""
    lines = [
        "| stream | different shapes | kept | KiB each | binding ms, median | MiB of the process, after 1 % and all | "
        "a search for garbage ms |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.name} | {one.shapes} | {one.kept} | {one.member_bytes / 1024:.0f} | {one.binding * 1e3:.1f} | "
        f"{one.begin:.0f} / {one.end:.0f} | {one.collection * 1e3:.0f} |"
        for one in found
    ]
    return "\n".join(lines)
