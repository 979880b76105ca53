"""``clgraph estimate``."""

from __future__ import annotations

import click

from clgraph.cli.compiling import check_shapes, load_topology
from clgraph.cli.options import ModelOptions, model_options
from clgraph.cli.output import json_option, nbytes, say, say_json, table
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.compilation.estimating import Estimate, estimate
from clgraph.errors import OptionError
from clgraph.saved.container import is_dump

_PARTS = ("constants", "activations", "inputs", "scratch", "tables", "results", "total")


@click.command(cls=SectionedCommand, name="estimate")
@model_options
@json_option
def command(options: ModelOptions, as_json: bool) -> None:
    """Estimate the device memory that MODEL needs, and the largest batch within --memory-limit.

    Nothing is run or allocated, and the device need not be present: null:avx2 is PoCL on a CPU with that instruction
    set, null:FILE.json a device that `clgraph devices --json` has printed on another machine. Without a limit, the
    largest batch is that for the memory of the device.

    \b
    Examples:
      clgraph estimate model.onnx --shape x=8,3,224,224
      clgraph estimate model.onnx --memory-limit '512 MiB' --weights int8
      clgraph estimate model.onnx --device null:avx2 --threads 8
      clgraph estimate model.onnx --device null:machine.json#gpu:0 --json
    """
    if is_dump(options.model):
        raise OptionError(f"{options.model.name} is a dump of a program: give the model that it was made of")
    topology, _ = load_topology(options)
    check_shapes(topology, options.shapes)
    where = options.where
    with working(f"compiling {options.model.name}"):
        found = estimate(
            topology,
            where.device,
            dict(options.shapes),
            threads=where.threads,
            cache_dir=where.cache_dir,
            config=dict(options.config),
        )
    if as_json:
        needs = [{"placement": n.placement, **{part: getattr(n, part) for part in _PARTS}} for n in found.needs]
        shown = {name: getattr(found, name) for name in ("shapes", "weights", "packed", "inputs", "outputs")}
        batch = {name: getattr(found, name) for name in ("limit", "batch", "largest_batch", "why")}
        say_json({**shown, "needs": needs, "compiling": found.compiling, **batch})
    else:
        _show(found)


def _show(found: Estimate) -> None:
    table(
        ("device", *_PARTS, "compiling"),
        [
            (n.placement, *(nbytes(getattr(n, part)) for part in _PARTS), nbytes(found.compiling[n.placement]))
            for n in found.needs
        ],
    )
    for line in str(found).splitlines():
        if not line.startswith(("takes ", "compiling ")):
            say(line)
