"""Rows a second of batch jobs on Ray, by wall time, with one worker and with several on this machine.

A job is a dataset of equal blocks through ``clgraph.ray.map_batches``, on actors of one CPU and one thread each. The
rate is that of the middle of a job: from when a fifth of the rows has come, all actors being there, to when nine tenths
have, before the last ones stand idle. Jobs with few workers and with many take turns, several rounds; the ratio is that
of each round, and the median is what is reported.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from clgraph.cli.progress import working
from tests.support.models import image, with_batch
from tools.benchmark.cases import load

SCALING = {"resnet50": 8, "mobilenet_v2": 32}
"""Models, and the rows of a block, which are a run's."""
FIRST, LAST = 0.2, 0.9
"""The part of the rows that counts."""
TRIED_SECONDS = 3.0
"""How long one worker is tried, to know how many rows a job of a certain time has."""
START_SECONDS = 600.0
"""How long a job waits for its actors."""


@dataclass
class ScalingFigures:
    """What was measured of one model.

    Attributes:
        rows: Of each job.
        rates: By number of workers, rows a second in each round.
    """

    model: str
    rows: int
    batch: int
    rates: dict[str, list[float]] = field(default_factory=dict)

    def rate(self, workers: str) -> float:
        """Return the median of what *workers* did."""
        return median(self.rates[workers])

    def ratio(self, workers: str) -> float:
        """Return the median of a round's rate in times that of one worker."""
        return median(many / one for many, one in zip(self.rates[workers], self.rates["1"], strict=True))


def measure_scaling(name: str, workers: Sequence[int], rounds: int, seconds: float) -> ScalingFigures:
    """Return the figures of the model *name* with each number of *workers*, one among them.

    Args:
        seconds: What a job of one worker is to last.
    """
    import ray

    from clgraph.ray import Predictor

    batch = SCALING[name]
    model, feeds = load(name)
    ((column, one),) = feeds.items()
    block = image((batch, *one.shape[1:]))
    data = with_batch(model, batch).SerializeToString()
    tried = Predictor(data, device="cpu", threads=1)
    tried({column: block})
    begun, blocks = time.perf_counter(), 0
    while time.perf_counter() - begun < min(TRIED_SECONDS, seconds):
        tried({column: block})
        blocks += 1
    a_second = blocks / (time.perf_counter() - begun)
    count = max(10, round(a_second * seconds))
    found = ScalingFigures(name, batch * count, batch, {str(n): [] for n in workers})
    # One more for what reads and hands on.
    ray.init(num_cpus=max(workers) + 1, include_dashboard=False, log_to_driver=False, logging_level="error")
    try:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars, context.wait_for_min_actors_s = False, START_SECONDS
        blocks_of = [ray.put(block)] * count
        for number in range(rounds):
            for n in list(workers)[:: 1 if number % 2 else -1]:
                with working(f"{name}: {n} workers"):
                    found.rates[str(n)].append(_rate(ray.data.from_numpy_refs(blocks_of), data, column, batch, n))
    finally:
        ray.shutdown()
    return found


def _rate(dataset: Any, model: bytes, column: str, batch: int, workers: int) -> float:
    """Return the rows a second of the middle of a job."""
    import clgraph.ray

    job = clgraph.ray.map_batches(dataset, model, inputs={column: "data"}, batch_size=batch, actors=workers)
    came, rows = [], []
    for part in job.iter_batches(batch_size=None, prefetch_batches=0):
        came.append(time.perf_counter())
        rows.append(len(next(iter(part.values()))))
    return rate_of(came, np.cumsum(rows).tolist())


def rate_of(came: Sequence[float], rows: Sequence[int]) -> float:
    """Return the rows a second of the part that counts, where so many *rows* have come at the times *came*."""
    first, last = (next(i for i, n in enumerate(rows) if n >= share * rows[-1]) for share in (FIRST, LAST))
    return (rows[last] - rows[first]) / (came[last] - came[first])


def scaling_markdown(found: Sequence[ScalingFigures]) -> str:
    """Return a table, a line for each number of workers of a model."""
    lines = ["| model | workers | rows a second, by wall time | of one worker | rounds |", "|---|---|---|---|---|"]
    for one in found:
        for n in sorted(one.rates, key=int):
            name = f"{one.model}, jobs of {one.rows} rows, batches of {one.batch}"
            lines.append(f"| {name} | {n} | {one.rate(n):.1f} | {one.ratio(n):.2f} | {len(one.rates[n])} |")
    return "\n".join(lines)
