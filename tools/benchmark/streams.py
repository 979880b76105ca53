"""Streams of requests whose sizes change: each is new to the runtimes, then asked again, beside onnxruntime."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx

import clgraph
from clgraph.debugging.compare import relative_distance
from clgraph.demo.fetch import fetch_model
from clgraph.frontend.files import read_model
from tests.support.zoo_text import MINILM_L6, encoder, tokens
from tools.benchmark.cases import Feeds
from tools.benchmark.measuring import Schedule
from tools.benchmark.peers import Options, onnxruntime_options

NOTE = "family"
"""The note of a program that says whether it was bound."""


@dataclass(frozen=True)
class StreamCase:
    """A model of open sizes, and requests for it.

    Attributes:
        goals: What clgraph's total may be of onnxruntime's: every size new, and asked again.
    """

    model: Callable[[], onnx.ModelProto]
    request: Callable[[Random], Feeds]
    goals: tuple[float, float]


def _picture(shape: tuple[int, ...], seed: int) -> Feeds:
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


def _lines(random: Random) -> Feeds:
    return _picture((random.randint(1, 3), 3, 48, random.randint(64, 640)), random.randint(0, 1 << 30))


def _page(random: Random) -> Feeds:
    return _picture((1, 3, 32 * random.randint(8, 24), 32 * random.randint(8, 24)), random.randint(0, 1 << 30))


def _sentences(random: Random) -> Feeds:
    batch, count = random.randint(1, 4), random.randint(8, 199)
    return dict(tokens(batch, count, hidden=random.randint(0, count - 1), seed=random.randint(0, 1 << 30)))


STREAMS = {
    "recognition": StreamCase(lambda: read_model(fetch_model("ocr-rec"))[0], _lines, (1.0, 0.6)),
    "detection": StreamCase(lambda: read_model(fetch_model("ocr-det"))[0], _page, (1.0, 0.7)),
    "encoder": StreamCase(lambda: encoder(MINILM_L6, "batch", "sequence"), _sentences, (1.0, 0.7)),
}
"""Lines of text of any width, 1 to 3 of them; pages of any size; sentences of any length, 1 to 4 of them."""


@dataclass(frozen=True)
class Stream:
    """What a stream took; seconds of each request, by runtime.

    Attributes:
        first, again: The request when its sizes were new, and right afterwards.
        binding: clgraph's part of *first* before the run: binding a program and a network to the sizes.
        passes: All passes over the same model at one of the sizes.
        whole: How many requests were compiled whole, because they belong to no family.
        error: Worst difference of results, relative to the largest value.
    """

    name: str
    threads: int
    first: dict[str, list[float]]
    again: dict[str, list[float]]
    binding: list[float]
    passes: float
    whole: int
    error: float
    shapes: list[list[int]] = field(default_factory=list)

    def ratio(self, times: Mapping[str, list[float]]) -> float:
        """Return clgraph's total over onnxruntime's."""
        return sum(times["clgraph"]) / sum(times["onnxruntime"])


def stream(name: str, requests: int, options: Options, schedule: Schedule) -> Stream:
    """Send *requests* of random sizes, after a few others, to clgraph and onnxruntime in turn.

    Raises:
        ClgraphError: The model cannot be had or compiled.
    """
    import onnxruntime

    case, random = STREAMS[name], Random(99)
    model = case.model()
    ours = clgraph.compile(model, device=options.device, threads=options.workers, config={"model_cache": 0})
    theirs = onnxruntime.InferenceSession(
        model.SerializeToString(), onnxruntime_options(options), providers=["CPUExecutionProvider"]
    )
    warm, found = Random(7), _Found()
    for _ in range(schedule.warm + 4):
        feeds = case.request(warm)
        ours.run(feeds)
        theirs.run(None, feeds)
    for number in range(requests):
        found.ask(ours, theirs, case.request(random), schedule.pause, number % 2 == 0)
    sizes = {n: a.shape for n, a in case.request(Random(1)).items()}
    fixed = clgraph.compile(model, options.device, shapes=sizes, threads=options.workers, config={"model_cache": 0})
    passes = sum(p.seconds for p in fixed.passes)
    shapes = [list(shape) for shape in found.shapes]
    return Stream(
        name, options.threads, found.first, found.again, found.binding, passes, found.whole, found.error, shapes
    )


class _Found:
    """Asks both runtimes, and adds up."""

    def __init__(self) -> None:
        self.first: dict[str, list[float]] = {"clgraph": [], "onnxruntime": []}
        self.again: dict[str, list[float]] = {"clgraph": [], "onnxruntime": []}
        self.binding: list[float] = []
        self.shapes: list[tuple[int, ...]] = []
        self.whole, self.error = 0, 0.0

    def ask(self, ours: clgraph.Model, theirs: Any, feeds: Feeds, pause: float, first: bool) -> None:
        self.shapes.append(next(iter(feeds.values())).shape)
        results = {}
        for runtime in ("clgraph", "onnxruntime") if first else ("onnxruntime", "clgraph"):
            for times in (self.first, self.again):
                time.sleep(pause)
                start = time.perf_counter()
                if runtime == "clgraph":
                    program = ours.prepare({n: a.shape for n, a in feeds.items()})
                    bound = time.perf_counter() - start
                    results[runtime] = list(ours.run(feeds).values())
                else:
                    results[runtime] = theirs.run(None, feeds)
                times[runtime].append(time.perf_counter() - start)
                if runtime == "clgraph" and times is self.first:
                    self.binding.append(bound)
                    self.whole += not program.notes.get(NOTE, "").startswith("bound")
        for mine, other in zip(results["clgraph"], results["onnxruntime"], strict=True):
            self.error = max(self.error, relative_distance(mine, other))


def streams_markdown(found: list[Stream]) -> str:
    """Return a table of totals and medians, and one of what a member costs."""
    return "\n".join([*_totals(found), "", *_members(found)])


def _totals(found: list[Stream]) -> Iterator[str]:
    yield "| stream | requests | | clgraph s | onnxruntime s | ratio of totals | medians ms | error |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        for what, times, goal in zip(("new", "again"), (one.first, one.again), STREAMS[one.name].goals, strict=True):
            ratio = one.ratio(times)
            shown = f"{ratio:.2f}" if ratio <= goal else f"**{ratio:.2f}**"
            totals = " | ".join(f"{sum(times[r]):.2f}" for r in ("clgraph", "onnxruntime"))
            medians = " / ".join(f"{statistics.median(times[r]) * 1e3:.1f}" for r in ("clgraph", "onnxruntime"))
            name = f"{one.name}, {one.threads} threads | {len(times['clgraph'])}" if what == "new" else " | "
            yield f"| {name} | {what} | {totals} | {shown} (≤ {goal:g}) | {medians} | {one.error:.0e} |"


def _members(found: list[Stream]) -> Iterator[str]:
    yield "| stream | binding ms, median (least) | all passes ms | ratio | compiled whole |"
    yield "|---|---|---|---|---|"
    for one in found:
        median, least = statistics.median(one.binding), min(one.binding)
        ratio = one.passes / median
        yield (
            f"| {one.name} | {median * 1e3:.1f} ({least * 1e3:.1f}) | {one.passes * 1e3:.0f} | 1/{ratio:.0f} | "
            f"{one.whole} of {len(one.binding)} |"
        )
