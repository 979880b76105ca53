"""``clgraph explain``."""

from __future__ import annotations

import click

from clgraph.cli.compiling import compiled
from clgraph.cli.options import ModelOptions, model_options
from clgraph.cli.output import say, table
from clgraph.explain import Explanation


@click.command(name="explain")
@model_options
@click.argument("node", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(options: ModelOptions, node: str | None, as_json: bool) -> None:
    """Show what was decided about each node of MODEL, and why; everything about one NODE.

    A table shows which elementwise nodes were fused into which others, and why the others were not.

    NODE is the name of a node of the compiled program, or of an ONNX node that has become part of one.

    \b
    Examples:
      clgraph explain model.onnx
      clgraph explain model.onnx conv1
      clgraph explain model.onnx --json > decisions.json
    """
    report = compiled(options).explain()
    if node is not None:
        report = Explanation((report[node],))
    if as_json:
        say(report.to_json())
    elif node is not None:
        say(str(report))
    else:
        table(
            ("node", "primitive", "fused", "output", "placement", "implementation", "because"),
            [
                (
                    n.name,
                    n.primitive,
                    " + ".join(n.fused),
                    n.outputs[0][1],
                    n.placement or "",
                    n.implementation or "",
                    n.because or "",
                )
                for n in report.nodes
            ],
        )
        if report.fusions:
            say()
            rows = sorted(report.fusions, key=lambda f: (not f.done, f.node))
            table(("fusing", "", "into", "why not"), [(f.node, f.outcome, f.into, f.reason) for f in rows])
        say()
        for name, note in report.notes.items():
            if name != "prepare_primitive_fusing":
                say(f"{name}: {note}")
