"""``clgraph check``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import click

from clgraph.cli.compiling import load
from clgraph.cli.options import ModelOptions, model_options
from clgraph.cli.output import say, table
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.errors import FileError, ModelError, ShapeError, UnsupportedError
from clgraph.frontend.checking import Diagnostic, check_onnx
from clgraph.model.explanation import Explanation
from clgraph.saved.container import is_dump, is_saved

HOST = "host"


@dataclass(frozen=True)
class _OnHost:
    """A node of the compiled program that the device does not run, and why."""

    node: str
    origin: tuple[str, ...]
    primitive: str
    why: str


@dataclass
class _Report:
    """What was found out about a model.

    Attributes:
        operators: Nodes of each operator; empty for a saved model and a dump.
        expanded: Those that are read by the functions of their schemas, by node.
        noted: What importers say of nodes that are read otherwise than they are written.
        device: ``None`` where nothing was compiled, and then ``note`` says why.
        nodes: Of the compiled program.
    """

    model: str
    operators: Mapping[str, int] = field(default_factory=dict)
    expanded: Mapping[str, str] = field(default_factory=dict)
    noted: Mapping[str, str] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    device: str | None = None
    nodes: int = 0
    host: list[_OnHost] = field(default_factory=list)
    note: str = ""


@click.command(cls=SectionedCommand, name="check")
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def command(ctx: click.Context, options: ModelOptions, as_json: bool) -> None:
    """List everything in MODEL that is not supported, and what would be needed.

    Operators, their versions, attributes and element types are checked first. If all are supported and the shapes are
    known, the model is compiled, and nodes that run on the host in NumPy are listed with the reasons. The exit status
    is 0 if the model can be run, otherwise 1.

    \b
    Examples:
      clgraph check model.onnx
      clgraph check model.onnx --shape x=1,3,224,224 --device gpu
      clgraph check model.onnx --json
    """
    if options.model.is_fifo():
        raise FileError(f"{options.model} is a pipe, and check reads a model twice: write it to a file first")
    report = _Report(str(options.model))
    if not is_saved(options.model) and not is_dump(options.model):
        with working(f"reading {options.model.name}"):
            found = check_onnx(options.model)
        report.operators, report.expanded, report.problems = found.operators, found.expanded, list(found.problems)
        report.noted = found.noted
    if not report.problems:
        _compile(options, report)
    if as_json:
        say(json.dumps({"runs": not report.problems, **asdict(report)}, indent=2))
    else:
        _show(report)
    ctx.exit(1 if report.problems else 0)


def _compile(options: ModelOptions, report: _Report) -> None:
    """Compile the model and note what runs on the host, or what is wrong with it."""
    try:
        model = load(options)
        if not model.is_compiled and not (options.shapes or model.is_static):
            open_inputs = ", ".join(str(s) for s in model.inputs if not s.is_fixed)
            report.note = f"nothing was compiled: give the sizes of dynamic dimensions by --shape: {open_inputs}"
            return
        with working("compiling"):
            explanation = model.explain()
    except (ShapeError, UnsupportedError, ModelError) as error:
        report.problems += [
            Diagnostic("", "", line, "shapes, operators or a device that fit") for line in str(error).splitlines()
        ]
        return
    report.device, report.nodes = model.device.name, len(explanation.nodes)
    report.host = _on_host(explanation) if model.device.name != HOST else []


def _on_host(explanation: Explanation) -> list[_OnHost]:
    reasons = {}
    for line in explanation.notes.get("partition", "").splitlines():
        name, runs, why = line.partition(f" runs on {HOST}: ")
        if runs:
            reasons[name] = why
    return [
        _OnHost(n.name, n.origin, n.primitive, reasons.get(n.name, n.because or ""))
        for n in explanation.nodes
        if n.placement == HOST
    ]


def _show(report: _Report) -> None:
    if report.operators:
        say(f"operators   {', '.join(f'{name} ({count})' for name, count in report.operators.items())}")
    if report.expanded:
        counts = Counter(report.expanded.values())
        say(f"expanded    {', '.join(f'{name} ({count})' for name, count in counts.items())}: by their functions")
    for name, text in report.noted.items():
        say(f"note        {name} {text}")
    if report.problems:
        say()
        table(
            ("node", "operator", "problem", "needed"),
            [(p.node or "(graph)", p.operator, p.what, p.needed) for p in report.problems],
        )
        say()
        count = len(report.problems)
        say(f"cannot run  {count} problem{'' if count == 1 else 's'}")
        return
    if report.note:
        say(f"can be read; {report.note}")
        return
    if report.host:
        say()
        table(
            ("on the host", "from", "primitive", "because"),
            [(h.node, ", ".join(h.origin), h.primitive, h.why) for h in report.host],
        )
        say()
    say(f"can run     {report.nodes} nodes on {report.device}, {len(report.host)} of them on the host")
