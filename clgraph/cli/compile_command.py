"""``clgraph compile``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from clgraph.cli.compiling import compiled, load
from clgraph.cli.options import ModelOptions, model_options, parse_ranges, refuse_idle
from clgraph.cli.output import json_option, milliseconds, nbytes, say, say_json, table
from clgraph.cli.progress import working
from clgraph.cli.reports import dump_sources as write_sources
from clgraph.cli.reports import report_memory
from clgraph.cli.sections import SectionedCommand
from clgraph.graph.program import Program
from clgraph.model.explain import explain
from clgraph.model.model import Model


@click.command(cls=SectionedCommand, name="compile")
@model_options
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Save the compiled model to this file (.clg).")
@click.option("--without-weights", is_flag=True, help="Save it without its weights, for --weights-from.")
@click.option(
    "--prepare",
    multiple=True,
    metavar="NAME=1-8,3,224,224",
    help="Compile for these sizes, or ranges of sizes, and leave dimensions open.",
)
@click.option("--notes", is_flag=True, help="Show all notes of the passes.")
@click.option("--report", type=click.Choice(["memory"]), help="Show what uses the memory.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    default=Path("memory.svg"),
    show_default=True,
    help="File of the picture that --report memory draws.",
)
@click.option("--dump-sources", type=click.Path(path_type=Path), help="Write all kernel sources to this folder.")
@json_option
def command(
    options: ModelOptions,
    output: Path | None,
    without_weights: bool,
    prepare: tuple[str, ...],
    notes: bool,
    report: str | None,
    picture: Path,
    dump_sources: Path | None,
    as_json: bool,
) -> None:
    """Compile MODEL (an ONNX file, a saved model, or a dump) and show what the passes did.

    \b
    Examples:
      clgraph compile model.onnx
      clgraph compile model.onnx -o model.clg
      clgraph compile model.onnx -o model.clg --without-weights
      clgraph compile model.onnx -o model.clg --prepare x=1,3,64-640,64-640
      clgraph compile model.onnx --shape x=1,3,224,224 --dump-graphs graphs
      clgraph compile model.onnx --disable-pass fuse_attention --verify-passes
      clgraph compile model.onnx --force-kernel conv1=convolution.ref
      clgraph compile model.onnx --report memory --picture memory.svg
      clgraph compile model.onnx --device null --dump-sources sources
    """
    if report is None:
        refuse_idle("picture", "without --report memory")
    else:
        refuse_idle("notes", "with --report")
        refuse_idle("dump_sources", "with --report")
    if output is None:
        refuse_idle("without_weights", "without --output")
    model = _compiled(options, prepare, is_saved=output is not None)
    if output is not None:
        with working(f"saving {output.name}"):
            model.save(output, weights=not without_weights)
    if not model.is_compiled:
        _open(model, output, as_json=as_json)
        return
    if report is not None:
        report_memory(model, picture, as_json=as_json)
        return
    sources = [] if dump_sources is None else write_sources(model, dump_sources)
    if as_json:
        say_json(_figures(model.program) | {"passes": model.passes, "saved": output, "sources": sources})
        return
    table(
        ("number", "pass", "changes", "ms"),
        [(f"{p.number:02}", p.name, p.changes, milliseconds(p.seconds)) for p in model.passes],
    )
    say()
    _summary(model.program, sum(p.seconds for p in model.passes))
    _notes(model.program, notes)
    if (folder := options.config["dump_graphs"]) is not None:
        say(f"graphs      {folder}")
    if output is not None:
        say(f"saved       {output}, {nbytes(output.stat().st_size)}")
    if dump_sources is not None:
        say(f"sources     {len(sources)} files in {dump_sources}")


def _compiled(options: ModelOptions, prepare: Sequence[str], *, is_saved: bool) -> Model:
    """Return the model to show or save: compiled, or with open dimensions where it is saved and nothing else."""
    if prepare and options.shapes:
        raise click.UsageError("--prepare leaves dimensions open and --shape fixes them: give one of them")
    if not prepare and not is_saved:
        return compiled(options)
    model = load(options)
    if prepare:
        with working(f"compiling {options.model.name}"):
            model.prepare(parse_ranges(prepare))
    elif not model.is_compiled:
        for flag in ("report", "dump_sources"):
            refuse_idle(flag, "where dimensions stay open and nothing is compiled: give --shape or --prepare")
    return model


def _open(model: Model, output: Path | None, *, as_json: bool) -> None:
    """Show what was saved of a model of which nothing is compiled."""
    inputs = [str(signature) for signature in model.topology.inputs.values()]
    if as_json:
        say_json({"inputs": inputs, "passes": [], "saved": output, "sources": []})
        return
    say(f"inputs      {', '.join(inputs)}")
    say("compiled    nothing: sizes are open, and compiled when they come, or where --prepare gives them")
    if output is not None:
        say(f"saved       {output}, {nbytes(output.stat().st_size)}")


def _figures(program: Program) -> dict[str, object]:
    kernels = Counter(node.implementation for node in explain(program).nodes if node.steps)
    return {
        "nodes": len(program),
        "fused": sum(len(n.fused) for n in program),
        "kernels": kernels,
        "constant_bytes": sum(v.layout.nbytes for v in program.constants),
        "arenas": {
            placement: {"nbytes": a.nbytes, "lower_bound": a.lower_bound, "unshared": a.unshared}
            for placement, a in program.arenas.items()
        },
        "notes": program.notes,
    }


def _summary(program: Program, seconds: float) -> None:
    report = explain(program)
    kernels = Counter(node.implementation for node in report.nodes if node.steps)
    weights = sum(v.layout.nbytes for v in program.constants)
    say(f"passes      {milliseconds(seconds)} ms")
    say(f"nodes       {len(program)}, with {sum(len(n.fused) for n in program)} operations fused into them")
    say(f"reorders    {sum(n.primitive.kind == 'reorder' for n in program)}")
    say(f"kernels     {', '.join(f'{name} ({count})' for name, count in sorted(kernels.items(), key=str))}")
    say(f"constants   {nbytes(weights)}")
    for placement, arena in program.arenas.items():
        shared = f"at least {nbytes(arena.lower_bound)}, without sharing {nbytes(arena.unshared)}"
        say(f"arena       {nbytes(arena.nbytes)} on {placement} ({shared})")


def _notes(program: Program, every: bool) -> None:
    for name, note in program.notes.items():
        lines = note.splitlines()
        if every or len(lines) == 1:
            say(f"note        {name}: {note}")
        else:
            say(f"note        {name}: {len(lines)} lines, shown by --notes")
