"""``clgraph run``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import click

from clgraph.cli.compiling import load, random_feeds
from clgraph.cli.feeds import FeedOptions, feed_options, read_feeds
from clgraph.cli.options import ModelOptions, model_options, refuse_idle
from clgraph.cli.output import json_option, milliseconds, remark, say, say_json
from clgraph.cli.progress import working
from clgraph.cli.results import figures_of, read_labels, save_folder, save_output, show_largest, show_outputs
from clgraph.cli.sections import SectionedCommand
from clgraph.errors import InputError, OptionError
from clgraph.graph.node import Node
from clgraph.graph.primitive import Array
from clgraph.model.model import Model


@click.command(cls=SectionedCommand, name="run")
@model_options
@feed_options
@click.option("--random-inputs", is_flag=True, help="Use random arrays for inputs without --input.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--output", "outputs", multiple=True, metavar="[NAME=]FILE", help="Write to .npz, .npy or a picture.")
@click.option("--output-dir", type=click.Path(path_type=Path), help="Write each output there as a .npy file.")
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="Show the K largest values of each output.")
@click.option("--labels", type=click.Path(path_type=Path), help="Text file with one class name per line, for --top.")
@click.option("--dump-tensors", metavar="NODE,NODE", help="Also write the results of these nodes to --output-dir.")
@json_option
def command(
    options: ModelOptions,
    given: FeedOptions,
    random_inputs: bool,
    seed: int,
    outputs: tuple[str, ...],
    output_dir: Path | None,
    top: int | None,
    labels: Path | None,
    dump_tensors: str | None,
    as_json: bool,
) -> None:
    """Run MODEL (an ONNX file, a saved model, or a dump) once and show its outputs.

    A picture is scaled to the size of its input; the conversion to numbers is shown. A node is named as in the compiled
    program, or as an ONNX node that was merged into one.

    \b
    Examples:
      clgraph run model.onnx --input cat.jpg --top 5 --labels classes.txt
      clgraph run model.onnx --input x=cat.jpg --mean 124,116,104 --scale 58,57,57
      clgraph run model.onnx --input cat.jpg --preprocess fit=crop,mean=124
      clgraph run model.onnx --input x=image.npy --output-dir results
      clgraph run model.onnx --input feeds.npz --output results.npz
      clgraph run segmenter.onnx --input street.png --output mask=mask.png
      clgraph run model.onnx --random-inputs --shape x=1,3,224,224
      clgraph run model.clg --random-inputs
      clgraph run model.onnx --random-inputs --dump-tensors conv1 --output-dir out
    """
    if dump_tensors is not None and output_dir is None:
        raise OptionError("--dump-tensors needs a folder: --output-dir")
    if not random_inputs:
        refuse_idle("seed", "without --random-inputs")
    names = [] if labels is None else read_labels(labels)
    model = load(options)
    feeds = read_feeds(given, model.topology, options.shapes, (lambda text: remark([text])) if as_json else say)
    if random_inputs:
        shapes = dict(options.shapes) | {name: array.shape for name, array in feeds.items()}
        feeds = random_feeds(model, shapes, seed) | feeds
    elif missing := [s.name for s in model.inputs if s.name not in feeds]:
        raise InputError(f"input {missing[0]!r} is missing; give it by --input {missing[0]}=FILE or --random-inputs")
    with working("running"):
        start = time.perf_counter()
        results = model.run(feeds) if dump_tensors is None else _watched(model, feeds, dump_tensors.split(","))
        seconds = time.perf_counter() - start
    written = [save_output(results, text) for text in outputs]
    if output_dir is not None:
        written += [f"{name} -> {path}" for name, path in save_folder(results, output_dir).items()]
    if as_json:
        say_json({"seconds": seconds, "device": model.device.name, "outputs": figures_of(results), "written": written})
        return
    show_outputs(results)
    if top is not None or names:
        show_largest(results, top or 5, names)
    say(f"{milliseconds(seconds)} ms on {model.device.name}, including compilation for new shapes")
    for line in written:
        say(line)


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
