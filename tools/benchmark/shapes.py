"""New shapes: what a model that is in use takes from a set of input shapes it has not met to the first result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import clgraph
from tools.benchmark.cases import load
from tools.benchmark.peers import Options


@dataclass(frozen=True)
class NewShapes:
    """Seconds of the first and of a later run with each of some shapes, on a model that had run with another."""

    model: str
    shapes: tuple[tuple[int, ...], ...]
    first: tuple[float, ...]
    later: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the first runs."""
        return statistics.median(self.first)


def new_shapes(name: str, shapes: Sequence[tuple[int, ...]], options: Options) -> NewShapes:
    """Return the times of a model with one input, whose shape ``@`` of *name* gives, at other *shapes* of it.

    Raises:
        ClgraphError: The model cannot be had or compiled.
    """
    model, feeds = load(name)
    ((key, array),) = feeds.items()
    compiled = clgraph.compile(model, device=options.device, threads=options.threads)
    compiled.run({key: array})
    random = np.random.default_rng(0)
    first, later = [], []
    for shape in shapes:
        given = {key: random.random(shape, np.float32)}
        for times in (first, later):
            start = time.perf_counter()
            compiled.run(given)
            times.append(time.perf_counter() - start)
    return NewShapes(name, tuple(shapes), tuple(first), tuple(later))


DETECTION = tuple((1, 3, 32 * h, 32 * w) for h, w in ((15, 25), (20, 30), (23, 20), (10, 30), (30, 22), (17, 19)))
"""Pages of other sizes than 640x640, for ``ocr-det``."""


def shapes_markdown(found: Sequence[NewShapes]) -> str:
    """Return a row a shape."""
    lines = ["| model | new shape | first result ms | later ms |", "|---|---|---|---|"]
    for one in found:
        for shape, first, later in zip(one.shapes, one.first, one.later, strict=True):
            size = "x".join(map(str, shape))
            lines.append(f"| {one.model} | {size} | {first * 1e3:.0f} | {later * 1e3:.1f} |")
        lines.append(f"| {one.model} | median | {one.median * 1e3:.0f} (≤ 150) | |")
    return "\n".join(lines)
