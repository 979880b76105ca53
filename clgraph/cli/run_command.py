"""``clgraph run``."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np

from clgraph.cli.compiling import load, random_feeds, read_feeds
from clgraph.cli.options import ModelOptions, model_options
from clgraph.cli.output import milliseconds, say, table, working
from clgraph.errors import InputError, OptionError
from clgraph.graph.primitive import Array
from clgraph.graph.program import Node
from clgraph.model import Model


@click.command(name="run")
@model_options
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help="Array of an input.")
@click.option("--random-inputs", is_flag=True, help="Random arrays for the inputs that --input does not give.")
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option("--output-dir", type=click.Path(path_type=Path), help="Write each output there as a .npy file.")
@click.option("--dump-tensors", metavar="NODE,NODE", help="Write what these nodes make there, too.")
def command(
    options: ModelOptions,
    inputs: tuple[str, ...],
    random_inputs: bool,
    seed: int,
    output_dir: Path | None,
    dump_tensors: str | None,
) -> None:
    """Run MODEL (an ONNX file, or a saved one) once and show its outputs.

    \b
    Examples:
      clgraph run model.onnx --input x=image.npy --output-dir results
      clgraph run model.onnx --random-inputs --shape x=1,3,224,224
      clgraph run model.clg --random-inputs
      clgraph run model.onnx --random-inputs --dump-tensors conv1,conv2 --output-dir tensors

    A node is named as in the compiled program, or as an ONNX node that has become part of one.
    """
    if dump_tensors is not None and output_dir is None:
        raise OptionError("--dump-tensors needs a folder: --output-dir")
    feeds = read_feeds(inputs)
    model = load(options)
    if random_inputs:
        shapes = dict(options.shapes) | {name: array.shape for name, array in feeds.items()}
        feeds = random_feeds(model, shapes, seed) | feeds
    elif missing := [s.name for s in model.inputs if s.name not in feeds]:
        raise InputError(
            f"input {missing[0]!r} is missing; give it by --input {missing[0]}=FILE.npy or --random-inputs"
        )
    with working("running"):
        start = time.perf_counter()
        results = model.run(feeds) if dump_tensors is None else _watched(model, feeds, dump_tensors.split(","))
        seconds = time.perf_counter() - start
    table(
        ("output", "type", "shape", "least", "mean", "most"),
        [(name, a.dtype, "x".join(map(str, a.shape)) or "scalar", *_figures(a)) for name, a in results.items()],
    )
    say(f"{milliseconds(seconds)} ms on {model.device.name}, compiling included where the shapes were new")
    if output_dir is not None:
        for name, path in save(results, output_dir).items():
            say(f"{name} -> {path}")


def _watched(model: Model, feeds: dict[str, Array], wanted: list[str]) -> dict[str, Array]:
    """Return the outputs and, as ``node:value``, what *wanted* nodes make; raises ``OptionError`` for unknown ones."""
    model.prepare({name: array.shape for name, array in feeds.items()})
    report = model.explain()
    keeper = _Keeper(frozenset(report[name.strip()].name for name in wanted))
    return model.watch(feeds, keeper) | keeper.found


@dataclass
class _Keeper:
    """Keeps what some nodes make."""

    nodes: frozenset[str]
    found: dict[str, Array] = field(default_factory=dict)

    def before(self, node: Node, inputs: tuple[Array, ...]) -> None:
        """Keep nothing."""

    def after(self, node: Node, outputs: tuple[Array, ...]) -> None:
        """Keep the results."""
        if node.name in self.nodes:
            self.found |= {f"{node.name}:{v.name}": a for v, a in zip(node.outputs, outputs, strict=True)}


def save(results: dict[str, Array], folder: Path) -> dict[str, Path]:
    """Write each array to a file called like its output, as far as file names allow; return the paths by name.

    Raises:
        InputError: The folder cannot be written.
    """
    paths: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in results.items():
            stem = re.sub(r"[^\w.-]+", "_", name)[:100].strip(".") or "output"
            path, n = folder / f"{stem}.npy", 1
            while path in paths.values():
                n += 1
                path = folder / f"{stem}_{n}.npy"
            np.save(path, array)
            paths[name] = path
    except OSError as error:
        raise InputError(f"the outputs cannot be written to {folder}: {error}") from error
    return paths


def _figures(array: Array) -> tuple[str, ...]:
    if not array.size:
        return ("", "", "")
    values = array.astype(np.float64)
    return tuple(f"{v:.6g}" for v in (values.min(), values.mean(), values.max()))
