"""``clgraph explain``."""

from __future__ import annotations

import click

from clgraph.cli.compiling import compiled, random_feeds
from clgraph.cli.options import ModelOptions, model_options
from clgraph.cli.output import say, table
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.model.explanation import COMPRESSING, FUSING, Explanation
from clgraph.passes.quantization.few_bits import Compressed

_SPARE = ("because", "fused", "output", "primitive", "placement", "subgraph")
"""Columns that a narrow terminal may lack, the most useful first."""


@click.command(cls=SectionedCommand, name="explain")
@model_options
@click.argument("node", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--measure", is_flag=True, help="Run once on random inputs, and show the measured time of each node.")
def command(options: ModelOptions, node: str | None, as_json: bool, measure: bool) -> None:
    """Show the placement, kernel and formats of each node of MODEL with the reasons, or all details of one NODE.

    A second table shows which elementwise nodes were fused into which others, and why the others were not.

    The estimate is in microseconds for the given number of workers (--threads). It comes from the cost model, or from
    the measurements of `clgraph tune` where the reason is "tuned". Kernels are chosen by the estimates for the whole
    device, so that the number of threads changes no result; those in the note of reorder_inputs are for the whole
    device, too.

    NODE is the name of a node of the compiled program, or of an ONNX node that was merged into one.

    \b
    Examples:
      clgraph explain model.onnx
      clgraph explain model.onnx conv1 --measure
      clgraph explain model.onnx --json > decisions.json
    """
    model = compiled(options)
    report = model.explain()
    if measure:
        feeds = random_feeds(model, options.shapes, seed=0)
        with working("running"):
            report = report.with_profile(model.profile(feeds))
    if node is not None:
        report = Explanation((report[node],))
    if as_json:
        say(report.to_json())
    elif node is not None:
        for line in str(report).splitlines():
            say(line)
    else:
        table(*report.table(measured=measure), spare=_SPARE)
        _show_fusions(report)
        _show_compressed(report)
        if len(report.subgraphs) > 1:
            say()
            for subgraph in report.subgraphs:
                say(str(subgraph))
        say()
        _show_notes(report)


def _show_fusions(report: Explanation) -> None:
    if report.fusions:
        say()
        found = sorted(report.fusions, key=lambda f: (not f.done, f.node))
        table(("fusing", "", "into", "why not"), [(f.node, f.outcome, f.into, f.reason) for f in found])


def _show_compressed(report: Explanation) -> None:
    if report.compressed:
        say()
        rows = [
            (c.node, c.bits, c.group, c.nbytes, c.before, *(f"{e:.2g}" for e in (c.rms, c.largest, c.product)))
            for c in report.compressed
        ]
        table(("weights of", "bits", "group", "bytes", "of", "error rms", "at most", "of a product"), rows)


def _show_notes(report: Explanation) -> None:
    """Print the passes' notes, but for what the tables have shown."""
    for name, note in report.notes.items():
        if name == COMPRESSING:
            note = "\n".join(line for line in note.splitlines() if Compressed.read(line) is None)
        if name not in FUSING and note:
            say(f"{name}: {note}")
