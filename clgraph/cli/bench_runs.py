"""What ``clgraph bench`` measures: a model, its inputs, and runs of it alone and beside others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import clgraph
from clgraph.cli.bench_figures import Peer
from clgraph.cli.compiling import load, load_topology, random_feeds
from clgraph.cli.feeds import FeedOptions, read_feeds
from clgraph.cli.measuring import Budget, Latencies, Run, at_once, interleaved
from clgraph.cli.options import ModelOptions
from clgraph.cli.progress import advancing, working
from clgraph.core.layout import Shape
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.saved.container import is_dump, is_saved


def open_model(options: ModelOptions) -> tuple[Model, dict[str, float]]:
    """Return the model, and the seconds of reading it and of opening the device and compiling what can be yet."""
    where = options.where
    arguments: dict[str, Any] = {
        "device": where.device,
        "threads": where.threads,
        "cache_dir": where.cache_dir,
        "config": dict(options.config),
    }
    clock = time.perf_counter
    with working(f"loading {options.model.name}"):
        start = clock()
        if is_saved(options.model) and not options.images:
            model = clgraph.load(options.model, weights_from=options.weights_from, **arguments)
            return model, {"read_seconds": clock() - start, "compile_seconds": 0.0}
        if is_dump(options.model):
            model = load(options)
            return model, {"read_seconds": 0.0, "compile_seconds": clock() - start}
        topology, _ = load_topology(options)
        read = clock()
        model = clgraph.compile(topology, **arguments)
        return model, {"read_seconds": read - start, "compile_seconds": clock() - read}


def inputs_of(
    topology: Topology,
    options: ModelOptions,
    given: FeedOptions,
    batch: int | None,
    seed: int,
    tell: Callable[[str], None],
) -> list[dict[str, Array]]:
    """Return the arrays of every set of shapes. Raises ``InputError`` where a shape stays open."""
    found = []
    for i, shapes in enumerate(options.cycle):
        sizes = _batched(topology, shapes, batch)
        feeds = read_feeds(given, topology, sizes, tell if i == 0 else lambda _: None)
        sizes = sizes | {name: array.shape for name, array in feeds.items()}
        found.append(random_feeds(topology, sizes, seed) | feeds)
    return found


def _batched(topology: Topology, shapes: Mapping[str, Shape], batch: int | None) -> dict[str, Shape]:
    sizes = dict(shapes)
    if batch is None:
        return sizes
    for signature in topology.fed.values():
        shape: Sequence[Any] = sizes.get(signature.name) or signature.shape or ()
        if shape and all(isinstance(size, int) for size in shape[1:]):
            sizes[signature.name] = (batch, *shape[1:])
    return sizes


def first_runs(model: Model, cycle: Sequence[Mapping[str, Array]]) -> tuple[list[float], list[float]]:
    """Return the seconds of the first run on each set of inputs, and those of compiling for it before."""
    first, compiled = [], []
    for feeds in cycle:
        with working("compiling for the inputs"):
            start = time.perf_counter()
            model.prepare({name: array.shape for name, array in feeds.items()}, feeds)
            compiled.append(time.perf_counter() - start)
        with working("running"):
            start = time.perf_counter()
            model.run(feeds)
            first.append(time.perf_counter() - start)
    return first, compiled


def _runner(model: Model, cycle: Sequence[Mapping[str, Array]]) -> Run:
    return lambda i: model.run(cycle[i])


def alone(
    model: Model, peer: Peer | None, cycle: Sequence[Mapping[str, Array]], budget: Budget
) -> tuple[tuple[Latencies, ...], tuple[tuple[float, ...], ...]]:
    """Return the latencies of one run at a time, and the medians of blocks, of the model and of the peer."""
    runs = [_runner(model, cycle)]
    if peer is not None:
        runs.append(lambda i: peer.runtime.run(cycle[i]))
    with advancing("measuring latency", (budget.iterations or budget.seconds) * len(runs)) as advance:
        return interleaved(runs, len(cycle), budget, advance)


def together(models: Sequence[Model], cycle: Sequence[Mapping[str, Array]], budget: Budget) -> tuple[Latencies, float]:
    """Return the latencies of *models* that run at once, and their runs a second."""
    runs = [_runner(model, cycle) for model in models]
    with working(f"starting {len(runs)} streams"):
        for run in runs:
            for i in range(len(cycle)):
                run(i)
    with advancing(f"measuring {len(runs)} streams", budget.iterations or budget.seconds) as advance:
        return at_once(runs, len(cycle), budget, advance)
