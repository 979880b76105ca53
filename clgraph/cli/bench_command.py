"""``clgraph bench``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

import clgraph
from clgraph.cli.bench_report import PERCENTILES, show
from clgraph.cli.bench_streams import bench_streams
from clgraph.cli.compiling import load, load_topology, random_feeds
from clgraph.cli.feeds import FeedOptions, feed_options, read_feeds
from clgraph.cli.measuring import Budget, Latencies, Run, at_once, interleaved, peak_bytes, resident_bytes
from clgraph.cli.options import ModelOptions, cycling_model_options, refuse_idle
from clgraph.cli.output import remark, say
from clgraph.cli.peers import PEERS
from clgraph.cli.progress import advancing, working
from clgraph.cli.sections import SectionedCommand
from clgraph.core.layout import Shape
from clgraph.core.version import __version__
from clgraph.errors import OptionError
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.ops.preprocess import lone_images
from clgraph.saved.container import is_dump, is_saved


@click.command(cls=SectionedCommand, name="bench")
@cycling_model_options
@feed_options
@click.option(
    "--seed",
    default=0,
    show_default=True,
    help="Seed of the random inputs, which are those that --input does not give.",
)
@click.option("--batch", type=click.IntRange(min=1), help="First size of every input.")
@click.option("-n", "--streams", type=click.IntRange(min=1), default=1, show_default=True, help="Clones run at once.")
@click.option(
    "-t", "--time", "seconds", type=click.FloatRange(min=0.01), default=3.0, show_default=True, help="Seconds."
)
@click.option("--iterations", type=click.IntRange(min=1), help="Runs to measure, instead of --time.")
@click.option(
    "--hint",
    type=click.Choice(["latency", "throughput"]),
    default="latency",
    show_default=True,
    help="throughput: find how many streams serve most requests, and keep it.",
)
@click.option("--join", is_flag=True, help="With --hint throughput, try batches made of concurrent requests, too.")
@click.option("--clients", type=click.IntRange(min=1), help="With --hint throughput, requests at once.")
@click.option("--compare", type=click.Choice([*PEERS]), help="Measure another runtime in turn with clgraph.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Write all figures there; - prints them only."
)
def command(
    options: ModelOptions,
    given: FeedOptions,
    seed: int,
    batch: int | None,
    streams: int,
    seconds: float,
    iterations: int | None,
    hint: str,
    join: bool,
    clients: int | None,
    compare: str | None,
    json_file: Path | None,
) -> None:
    """Measure MODEL: start, latency, throughput and memory.

    Inputs are random where --input gives none. Shapes that are given several times are cycled through. Latency is of
    one run at a time; throughput is of --streams clones of the model at once. A runtime to compare with runs in blocks
    in turn with clgraph, with as many threads; the ratio is taken of each pair of blocks: below 1, clgraph is faster.

    \b
    Examples:
      clgraph bench model.onnx
      clgraph bench model.onnx --shape x=1,3,224,224 --time 10 --threads 2
      clgraph bench model.onnx --shape x=1x3x640x640 --shape x=1x3x320x320
      clgraph bench model.onnx --input x=cat.jpg --compare onnxruntime
      clgraph bench model.onnx --batch 8 --streams 2 --json figures.json
      clgraph bench model.clg --iterations 100 --json -
      clgraph bench model.onnx --hint throughput --join

    --hint throughput measures 1, 2, 4, ... streams in turn, each for --time seconds, under requests that come at once,
    and keeps the best for compile(hint="throughput"). --shape and --input say what the requests are.
    """
    if hint == "throughput":
        for name in ("streams", "iterations", "compare", "weights_from"):
            refuse_idle(name, "with --hint throughput")
        topology = load_topology(options)[0]
        if lone_images(topology):
            for name in ("batch", "join"):
                refuse_idle(name, "where images are fed one by one")
        cycle = _cycle(topology, options, given, batch, seed, lambda _: None)
        bench_streams(options, cycle, json_file, joins=join, clients=clients, seconds=seconds)
        return
    for name in ("join", "clients"):
        refuse_idle(name, "without --hint throughput")
    if iterations is not None:
        refuse_idle("seconds", "with --iterations")
    if compare is not None and (is_saved(options.model) or is_dump(options.model)):
        raise OptionError(f"{compare} does not read {options.model.name}: give the ONNX file it was made of")
    if compare is not None:
        refuse_idle("preprocess", "with --compare: other runtimes are fed what the file of the model says")
    quiet = json_file is not None and str(json_file) == "-"
    tell: Callable[[str], None] = (lambda text: click.echo(text, err=True)) if quiet else say
    started = resident_bytes()
    model, start = _open(options)
    with model:
        if lone_images(model.topology):
            refuse_idle("batch", "where images are fed one by one")
        cycle = _cycle(model.topology, options, given, batch, seed, tell)
        first, compiled = _first_runs(model, cycle)
        start["compile_seconds"] = start["compile_seconds"] + compiled[0]
        remark(model.unused)
        budget = Budget(seconds, iterations)
        runs: list[Run] = [lambda i: model.run(cycle[i])]
        peer = None
        if compare is not None:
            with working(f"loading {options.model.name} with {compare}"):
                peer = _Peer(compare, options.model, model.device.workers, cycle)
            runs.append(lambda i: peer.runtime.run(cycle[i]))
        with advancing("measuring latency", (iterations or seconds) * len(runs)) as advance:
            latencies, blocks = interleaved(runs, len(cycle), budget, advance)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        clones = [model.clone() for _ in range(streams - 1)]
        many = None
        if streams > 1:
            clone_runs: list[Run] = [_runner(m, cycle) for m in (model, *clones)]
            with working(f"starting {streams} streams"):
                for run in clone_runs:
                    for i in range(len(cycle)):
                        run(i)
            with advancing(f"measuring {streams} streams", iterations or seconds) as advance:
                many = at_once(clone_runs, len(cycle), budget, advance)
        figures = {
            "model": str(options.model),
            "device": model.device.name,
            "threads": model.device.workers,
            "load_average": load,
            "versions": {"clgraph": __version__, **({} if peer is None else {compare: peer.runtime.version})},
            "start": start,
            "inputs": [
                {
                    "shapes": {name: list(a.shape) for name, a in feeds.items()},
                    "compile_seconds": compiled[i],
                    "first_seconds": first[i],
                    "latency": _latency(latencies[0], i),
                }
                for i, feeds in enumerate(cycle)
            ],
            "latency": _latency(latencies[0]),
            "throughput": _throughput(latencies[0], many, streams, batch),
            "memory": _memory(model, started),
        }
        if peer is not None:
            figures[str(compare)] = peer.figures(model, cycle, latencies[1], blocks)
        for clone in clones:
            clone.close()
    if json_file is not None:
        _write(figures, json_file, quiet=quiet)
    if not quiet:
        show(figures, compare)
        if json_file is not None:
            say(f"figures -> {json_file}")


def _open(options: ModelOptions) -> tuple[Model, dict[str, float]]:
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


def _cycle(
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


def _first_runs(model: Model, cycle: Sequence[Mapping[str, Array]]) -> tuple[list[float], list[float]]:
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


class _Peer:
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
            "latency": _latency(latencies),
            "ratio": float(np.median(ratios)),
            "least_ratio": ratios[0],
            "largest_ratio": ratios[-1],
            "largest_difference": max(_difference(model.run(f), self.runtime.run(f)) for f in cycle),
        }


def _difference(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> float:
    """Return how far results are apart at most, relative to the largest value of each."""
    worst = 0.0
    for name, expected in theirs.items():
        if expected.size and np.issubdtype(expected.dtype, np.number):
            wanted = expected.astype(np.float64)
            worst = max(worst, float(np.abs(ours[name] - wanted).max() / (np.abs(wanted).max() or 1)))
    return worst


def _latency(latencies: Latencies, inputs: int | None = None) -> dict[str, float | int]:
    if inputs is not None and inputs not in latencies.inputs:
        return {"runs": 0}
    count = len(latencies.seconds) if inputs is None else latencies.inputs.count(inputs)
    names = {0: "least_seconds", 100: "largest_seconds"}
    found: dict[str, float | int] = {"runs": count}
    if inputs is None:
        found["mean_seconds"] = latencies.mean
    for percent in (0, *PERCENTILES, 100):
        found[names.get(percent, f"p{percent}_seconds")] = latencies.percentile(percent, inputs)
    return found


def _throughput(
    alone: Latencies, many: tuple[Latencies, float] | None, streams: int, batch: int | None
) -> dict[str, Any]:
    found: dict[str, Any] = {"streams": 1, "runs_per_second": 1 / alone.mean}
    if many is not None:
        found = {"streams": streams, "runs_per_second": many[1], "latency": _latency(many[0])}
        found["over_one_stream"] = many[1] * alone.mean
    if batch is not None:
        found |= {"batch": batch, "items_per_second": batch * found["runs_per_second"]}
    return found


def _memory(model: Model, started: int | None) -> dict[str, Any]:
    program = model.program
    return {
        "resident_at_start_bytes": started,
        "resident_bytes": resident_bytes(),
        "peak_resident_bytes": peak_bytes(),
        "arena_bytes": {placement: arena.nbytes for placement, arena in program.arenas.items()},
        "constant_bytes": sum(v.layout.nbytes for v in program.constants),
    }


def _write(figures: Mapping[str, Any], path: Path, *, quiet: bool) -> None:
    text = json.dumps(figures, indent=2)
    if quiet:
        say(text)
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from error
