"""``clgraph compare``."""

from __future__ import annotations

import click

from clgraph.bisection import bisect
from clgraph.cli.compiling import load_topology, random_feeds
from clgraph.cli.feeds import FeedOptions, feed_options, read_feeds
from clgraph.cli.options import ModelOptions, model_options
from clgraph.cli.output import say, table, working
from clgraph.cli.peers import OnnxRuntime
from clgraph.compare import HALF_TOLERANCE, TOLERANCE, Comparison, NodeError, compare


@click.command(name="compare")
@model_options
@feed_options
@click.option("--random-inputs", is_flag=True, help="Random arrays for the other inputs; this is the default.")
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option(
    "--tolerance",
    type=float,
    help=f"Of an output, relative to its largest value: {TOLERANCE:g}, {HALF_TOLERANCE:g} in half precision.",
)
@click.option("--top", default=10, show_default=True, metavar="N", help="Show the N worst nodes; 0 for all in order.")
@click.option("--bisect", "find", is_flag=True, help="Find the pass or the kernel that makes a difference.")
@click.option("--against", type=click.Choice(["references", "onnxruntime"]), default="references", show_default=True)
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
) -> None:
    """Run MODEL on the device, node by node, and compare each node with its reference in float64.

    `own` is the error of a node on what the device gave it to read, `total` that of everything up to it, both relative
    to the largest value of the result. The status is 1 when something differs.

    \b
    Examples:
      clgraph compare model.onnx --shape x=1,3,224,224
      clgraph compare model.onnx --input x=image.npy --against onnxruntime
      clgraph compare model.onnx --bisect
    """
    topology, settings = load_topology(options)
    feeds = read_feeds(given, topology, options.shapes, say)
    shapes = dict(options.shapes) | {name: array.shape for name, array in feeds.items()}
    feeds = random_feeds(topology, shapes, seed) | feeds
    expected = None if against == "references" else OnnxRuntime(options.model).run(feeds)
    if find:
        with working("bisecting"):
            finding = bisect(topology, feeds, settings, tolerance=tolerance, expected=expected, against=_name(against))
        _show(finding.comparison, top)
        for line in finding.log:
            say(f"tried       {line}")
        say(f"found       {finding}")
        ctx.exit(0 if finding.comparison.agrees else 1)
    with working("comparing"):
        found = compare(topology, feeds, settings, tolerance=tolerance, expected=expected, against=_name(against))
    _show(found, top)
    say(found.verdict())
    ctx.exit(0 if found.agrees else 1)


def _show(found: Comparison, top: int) -> None:
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
