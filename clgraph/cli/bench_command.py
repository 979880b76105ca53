"""``clgraph bench``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from clgraph.cli.bench_figures import Peer, latency_figures, memory_figures, throughput_figures
from clgraph.cli.bench_report import show
from clgraph.cli.bench_runs import alone, first_runs, inputs_of, open_model, together
from clgraph.cli.bench_streams import bench_streams
from clgraph.cli.compiling import load_topology
from clgraph.cli.feeds import FeedOptions, feed_options
from clgraph.cli.measuring import Budget, resident_bytes
from clgraph.cli.options import ModelOptions, cycling_model_options, refuse_idle
from clgraph.cli.output import json_value, remark, say
from clgraph.cli.peers import PEERS
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.core.version import __version__
from clgraph.errors import OptionError
from clgraph.graph.topology import Topology
from clgraph.ops.preprocess import lone_images
from clgraph.saved.container import is_dump, is_saved


@click.command(cls=SectionedCommand, name="bench")
@cycling_model_options
@feed_options
@click.option(
    "--seed",
    default=0,
    show_default=True,
    help="Seed of random inputs, for those without --input.",
)
@click.option("--batch", type=click.IntRange(min=1), help="Batch size: the first dimension of every input.")
@click.option(
    "-n",
    "--streams",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of clones that run at once.",
)
@click.option(
    "-t",
    "--time",
    "seconds",
    type=click.FloatRange(min=0.01),
    default=3.0,
    show_default=True,
    help="Seconds to measure.",
)
@click.option("--iterations", type=click.IntRange(min=1), help="Number of runs to measure, instead of --time.")
@click.option(
    "--hint",
    type=click.Choice(["latency", "throughput"]),
    default="latency",
    show_default=True,
    help="throughput: find and store the number of streams with the highest throughput.",
)
@click.option("--join", is_flag=True, help="With --hint throughput, also try batches of concurrent requests.")
@click.option("--clients", type=click.IntRange(min=1), help="With --hint throughput, number of concurrent requests.")
@click.option("--compare", type=click.Choice([*PEERS]), help="Compare with another runtime.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path),
    help="Write all figures to this file; - prints them instead of the report.",
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
    """Measure start-up time, latency, throughput and memory of MODEL.

    Inputs without --input are random. Several --shape options for an input are measured in turn. Latency is that of
    one run at a time, throughput that of --streams clones of the model running at once. With --compare, both runtimes
    run in alternating blocks with the same number of threads; the ratio is the median over the pairs of blocks, and
    below 1 where clgraph is faster.

    \b
    Examples:
      clgraph bench model.onnx
      clgraph bench model.onnx --shape x=1,3,224,224 --time 10 --threads 2
      clgraph bench model.onnx --shape x=1x3x640x640 --shape x=1x3x320x320
      clgraph bench model.onnx --input x=cat.jpg --compare onnxruntime
      clgraph bench model.onnx --batch 8 --streams 2 --json figures.json
      clgraph bench model.clg --iterations 100 --json -
      clgraph bench model.onnx --hint throughput --join

    --hint throughput measures 1, 2, 4, ... streams in turn, each for --time seconds, with concurrent requests, and
    stores the best number for compile(hint="throughput"). --shape and --input define the requests.
    """
    if hint == "throughput":
        topology = _requests(options)
        cycle = inputs_of(topology, options, given, batch, seed, lambda _: None)
        bench_streams(options, cycle, json_file, joins=join, clients=clients, seconds=seconds)
        return
    _check(options, iterations, compare)
    quiet = json_file is not None and str(json_file) == "-"
    tell: Callable[[str], None] = (lambda text: click.echo(text, err=True)) if quiet else say
    started = resident_bytes()
    model, start = open_model(options)
    with model, ExitStack() as stack:
        if lone_images(model.topology):
            refuse_idle("batch", "where images are fed one by one")
        cycle = inputs_of(model.topology, options, given, batch, seed, tell)
        first, compiled = first_runs(model, cycle)
        start["compile_seconds"] = start["compile_seconds"] + compiled[0]
        remark(model.unused)
        budget = Budget(seconds, iterations)
        peer = None
        if compare is not None:
            with working(f"loading {options.model.name} with {compare}"):
                peer = Peer(compare, options.model, model.device.workers, cycle)
        latencies, blocks = alone(model, peer, cycle, budget)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        clones = [stack.enter_context(model.clone()) for _ in range(streams - 1)]
        many = together([model, *clones], cycle, budget) if clones else None
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
                    "latency": latency_figures(latencies[0], i),
                }
                for i, feeds in enumerate(cycle)
            ],
            "latency": latency_figures(latencies[0]),
            "throughput": throughput_figures(latencies[0], many, streams, batch),
            "memory": memory_figures(model, started),
        }
        if peer is not None:
            figures[str(compare)] = peer.figures(model, cycle, latencies[1], blocks)
    if json_file is not None:
        _write(figures, json_file, quiet=quiet)
    if not quiet:
        show(figures, compare)
        if json_file is not None:
            say(f"figures -> {json_file}")


def _requests(options: ModelOptions) -> Topology:
    """Return the topology whose requests --hint throughput measures, which some options do not go with."""
    for name in ("streams", "iterations", "compare", "weights_from"):
        refuse_idle(name, "with --hint throughput")
    topology, _ = load_topology(options)
    if lone_images(topology):
        for name in ("batch", "join"):
            refuse_idle(name, "where images are fed one by one")
    return topology


def _check(options: ModelOptions, iterations: int | None, compare: str | None) -> None:
    """Raise ``OptionError`` where options do not go together when latency is measured."""
    for name in ("join", "clients"):
        refuse_idle(name, "without --hint throughput")
    if iterations is not None:
        refuse_idle("seconds", "with --iterations")
    if compare is not None:
        if is_saved(options.model) or is_dump(options.model):
            raise OptionError(f"{compare} does not read {options.model.name}: give the ONNX file it was made of")
        refuse_idle("preprocess", "with --compare: other runtimes are fed what the file of the model says")


def _write(figures: Mapping[str, Any], path: Path, *, quiet: bool) -> None:
    text = json.dumps(json_value(figures), indent=2)
    if quiet:
        say(text)
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror}") from error
