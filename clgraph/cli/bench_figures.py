"""The figures of ``clgraph bench``: what is written as JSON and printed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clgraph.cli.bench_report import PERCENTILES
from clgraph.cli.measuring import Latencies, peak_bytes, resident_bytes
from clgraph.cli.peers import PEERS
from clgraph.debugging.compare import relative_distance
from clgraph.graph.primitive import Array
from clgraph.model.model import Model


class Peer:
    """Another runtime with the same model."""

    def __init__(self, name: str, model: Path, threads: int, cycle: Sequence[Mapping[str, Array]]) -> None:
        start = time.perf_counter()
        self.runtime = PEERS[name](model, threads)
        self.load = time.perf_counter() - start
        start = time.perf_counter()
        self.runtime.run(cycle[0])
        self.first = time.perf_counter() - start

    def figures(
        self,
        model: Model,
        cycle: Sequence[Mapping[str, Array]],
        latencies: Latencies,
        blocks: Sequence[Sequence[float]],
    ) -> dict[str, Any]:
        """Return its start and latency, clgraph's time over its own, and how far the results are apart."""
        ratios = sorted(ours / theirs for ours, theirs in zip(*blocks, strict=True))
        return {
            "load_seconds": self.load,
            "first_seconds": self.first,
            "latency": latency_figures(latencies),
            "ratio": float(np.median(ratios)),
            "least_ratio": ratios[0],
            "largest_ratio": ratios[-1],
            "largest_difference": max(largest_difference(model.run(f), self.runtime.run(f)) for f in cycle),
        }


def largest_difference(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float:
    """Return how far results are apart at most, relative to the largest value of each."""
    numbers = [name for name, expected in theirs.items() if np.issubdtype(expected.dtype, np.number)]
    return max((relative_distance(ours[name], theirs[name]) for name in numbers), default=0.0)


def latency_figures(latencies: Latencies, inputs: int | None = None) -> dict[str, float | int]:
    """Return how many runs there were, and their percentiles; of one number of inputs where it is given."""
    if inputs is not None and inputs not in latencies.inputs:
        return {"runs": 0}
    count = len(latencies.seconds) if inputs is None else latencies.inputs.count(inputs)
    names = {0: "min_seconds", 100: "max_seconds"}
    found: dict[str, float | int] = {"runs": count}
    if inputs is None:
        found["mean_seconds"] = latencies.mean
    for percent in (0, *PERCENTILES, 100):
        found[names.get(percent, f"p{percent}_seconds")] = latencies.percentile(percent, inputs)
    return found


def throughput_figures(
    alone: Latencies, many: tuple[Latencies, float] | None, streams: int, batch: int | None
) -> dict[str, Any]:
    """Return runs and items a second of one stream, or of as many as were measured at once."""
    found: dict[str, Any] = {"streams": 1, "runs_per_second": 1 / alone.mean}
    if many is not None:
        found = {"streams": streams, "runs_per_second": many[1], "latency": latency_figures(many[0])}
        found["over_one_stream"] = many[1] * alone.mean
    if batch is not None:
        found |= {"batch": batch, "items_per_second": batch * found["runs_per_second"]}
    return found


def memory_figures(model: Model, started: int | None) -> dict[str, Any]:
    """Return the memory of the process, *started* when it began, and of the model."""
    program = model.program
    return {
        "resident_at_start_bytes": started,
        "resident_bytes": resident_bytes(),
        "peak_resident_bytes": peak_bytes(),
        "arena_bytes": {placement: arena.nbytes for placement, arena in program.arenas.items()},
        "constant_bytes": sum(v.layout.nbytes for v in program.constants),
    }
