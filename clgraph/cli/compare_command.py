"""``clgraph compare``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from clgraph.cli.compiling import load_program, load_topology, random_feeds
from clgraph.cli.feeds import FeedOptions, feed_options, read_feeds
from clgraph.cli.noise_report import show_noise
from clgraph.cli.options import ModelOptions, model_options, refuse_idle
from clgraph.cli.output import json_option, remark, say, say_json, table
from clgraph.cli.peers import OnnxRuntime
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.debugging.bisection import bisect
from clgraph.debugging.compare import HALF_TOLERANCE, TOLERANCE, compare, compare_compiled
from clgraph.debugging.comparison import Comparison, NodeError
from clgraph.debugging.quantisation_noise import measure_noise
from clgraph.errors import OptionError
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.saved.container import is_dump

_RUNTIMES = ("references", "onnxruntime")
"""What a model is compared with, if not with another one."""


@click.command(cls=SectionedCommand, name="compare")
@model_options
@feed_options
@click.option("--random-inputs", is_flag=True, help="Use random arrays for the other inputs (the default).")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option(
    "--tolerance",
    type=float,
    help=f"Of an output, relative to its largest value: {TOLERANCE:g}, {HALF_TOLERANCE:g} in half precision.",
)
@click.option("--top", default=10, show_default=True, metavar="N", help="Show the N worst nodes; 0 for all in order.")
@click.option("--bisect", "find", is_flag=True, help="Find the pass or kernel that causes the difference.")
@click.option(
    "--against",
    default="references",
    show_default=True,
    metavar="WHAT",
    help="references, onnxruntime, or the file of the float model that MODEL was quantised from.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    options: ModelOptions,
    given: FeedOptions,
    random_inputs: bool,
    seed: int,
    tolerance: float | None,
    top: int,
    find: bool,
    against: str,
    as_json: bool,
) -> None:
    """Run MODEL on the device, node by node, and compare each node with its reference in float64.

    `own` is the error of a node given the inputs that the device computed, `total` the error accumulated up to it,
    both relative to the largest value of the result. A dump is compared beginning with the pass that it was written
    after. The exit status is 1 if a node differs.

    Against a float model, the layers whose tensors have the same names in both models are compared, the worst first:
    `snr` is the signal-to-noise ratio relative to the float model, in dB; `adds` the noise that the layer itself adds,
    relative to its result, `rounding` the part of it caused by rounding the result (the rest is caused by the weights),
    and `beyond` the share of elements out of the range of the integers. The exit status is 1 if the error of an output
    exceeds --tolerance, if given.

    \b
    Examples:
      clgraph compare model.onnx --shape x=1,3,224,224
      clgraph compare model.onnx --input x=image.npy --against onnxruntime
      clgraph compare model.onnx --bisect
      clgraph compare int8.onnx --input x=image.npy --against float.onnx
    """
    if against not in _RUNTIMES:
        if find:
            raise OptionError("--bisect looks for faults of passes and kernels: not against another model")
        _against_model(ctx, options, Path(against), given, seed, tolerance, top, as_json=as_json)
    if is_dump(options.model):
        if find or against != "references":
            raise OptionError(f"{options.model.name} is a dump: --bisect and --against want the model it was made of")
        with working(f"loading {options.model.name}"):
            dumped = load_program(options)
        feeds = _feeds(given, dumped.topology, options, seed, as_json=as_json)
        with working("comparing"):
            found = compare_compiled(dumped.specialise(), dumped.program, feeds, tolerance)
        _verdict(ctx, found, top, as_json=as_json)
    refuse_idle("preprocess", "here: models are compared by the inputs of their files")
    topology, settings = load_topology(options)
    feeds = _feeds(given, topology, options, seed, as_json=as_json)
    expected = None if against == "references" else OnnxRuntime(options.model).run(feeds)
    if find:
        with working("bisecting"):
            finding = bisect(topology, feeds, settings, tolerance=tolerance, expected=expected, against=_name(against))
        if as_json:
            tried = {"tried": finding.log, "found": str(finding)}
            say_json({"agrees": finding.comparison.agrees, **tried, "comparison": finding.comparison})
            ctx.exit(0 if finding.comparison.agrees else 1)
        _show(finding.comparison, top)
        for line in finding.log:
            say(f"tried       {line}")
        say(f"found       {finding}")
        ctx.exit(0 if finding.comparison.agrees else 1)
    with working("comparing"):
        found = compare(topology, feeds, settings, tolerance=tolerance, expected=expected, against=_name(against))
    _verdict(ctx, found, top, as_json=as_json)


def _against_model(
    ctx: click.Context,
    options: ModelOptions,
    source: Path,
    given: FeedOptions,
    seed: int,
    tolerance: float | None,
    top: int,
    *,
    as_json: bool,
) -> NoReturn:
    if is_dump(options.model) or is_dump(source):
        raise OptionError("a dump is not compared with another model: give the ONNX files")
    if not source.exists():
        raise OptionError(f"--against is {', '.join(_RUNTIMES)} or a model's file, and there is no file {source}")
    quantised, settings = load_topology(options)
    floats, _ = load_topology(replace(options, model=source, weights_from=None))
    feeds = _feeds(given, quantised, options, seed, as_json=as_json)
    with working("comparing"):
        found = measure_noise(quantised, floats, feeds, settings)
    if as_json:
        say_json({"verdict": found.verdict(), "comparison": found})
    else:
        show_noise(found, top)
    ctx.exit(int(tolerance is not None and any(not o.device.rms <= tolerance for o in found.outputs)))


def _feeds(
    given: FeedOptions, topology: Topology, options: ModelOptions, seed: int, *, as_json: bool
) -> dict[str, Array]:
    feeds = read_feeds(given, topology, options.shapes, (lambda text: remark([text])) if as_json else say)
    shapes = dict(options.shapes) | {name: array.shape for name, array in feeds.items()}
    return random_feeds(topology, shapes, seed) | feeds


def _verdict(ctx: click.Context, found: Comparison, top: int, *, as_json: bool) -> NoReturn:
    if as_json:
        say_json({"agrees": found.agrees, "verdict": found.verdict(), "comparison": found})
    else:
        _show(found, top)
        say(found.verdict())
    ctx.exit(0 if found.agrees else 1)


def _show(found: Comparison, top: int) -> None:
    remark(found.notes)
    nodes = sorted(found.nodes, key=lambda n: -n.own)[:top] if top else found.nodes
    table(("node", "kind", "implementation", "own", "total", ""), [(*_row(n), _mark(n, found)) for n in nodes])
    say()
    table(
        ("output", "device", "passes", "together"),
        [(o.name, f"{o.device:.1e}", f"{o.passes:.1e}", f"{o.together:.1e}") for o in found.outputs],
    )
    say()


def _row(n: NodeError) -> tuple[str, ...]:
    return n.node, n.kind, n.implementation, f"{n.own:.1e}", f"{n.total:.1e}"


def _mark(node: NodeError, found: Comparison) -> str:
    if node.overwritten:
        return f"overwritten: {', '.join(node.overwritten)}"
    return "differs" if node.differs(found.tolerance) else ""


def _name(against: str) -> str:
    return "the references" if against == "references" else against
