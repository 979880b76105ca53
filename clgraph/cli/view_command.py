"""``clgraph view``."""

from __future__ import annotations

import tempfile
import webbrowser
from dataclasses import replace
from pathlib import Path

import click

from clgraph.cli.compiling import compiled, random_feeds
from clgraph.cli.feeds import FeedOptions, feed_options, read_feeds
from clgraph.cli.options import ModelOptions, model_options
from clgraph.cli.output import nbytes, say
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.engines.opening import options_of
from clgraph.engines.records import is_dry
from clgraph.errors import OptionError
from clgraph.explorer.document import ModelView, document
from clgraph.explorer.making import profiled, view_of, view_of_dump, write_onnx
from clgraph.explorer.page import page
from clgraph.model.model import Model
from clgraph.network.profile import Profile
from clgraph.saved.container import is_dump, is_saved


@click.command(cls=SectionedCommand, name="view")
@model_options
@feed_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the page to this file instead of opening a browser."
)
@click.option("--against", type=click.Path(path_type=Path), help="Show this model or dump beside MODEL.")
@click.option(
    "--onnx", type=click.Path(path_type=Path), help="Write the program after every pass to this folder, for netron."
)
@click.option("--no-run", is_flag=True, help="Do not run the model: no times, no roofline.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
def command(
    options: ModelOptions,
    given: FeedOptions,
    output: Path | None,
    against: Path | None,
    onnx: Path | None,
    no_run: bool,
    seed: int,
) -> None:
    """Show the program after every pass of MODEL (an ONNX file, or a folder written by --dump-graphs) in the browser.

    With --onnx alone, the program after every pass is written as an ONNX file without weights, for viewers such as
    netron.

    The page is a single file that needs no network. It shows the graph after every pass with what the pass changed,
    fused and refused; for each node its origin, layouts, kernel with the reasons for the choice, times and source; the
    memory over time, the timeline of a run, and the roofline. Its URL contains the selected pass and node.

    \b
    Examples:
      clgraph view model.onnx --shape x=1,3,224,224
      clgraph view model.onnx --output report.html
      clgraph view float.onnx --against int8.onnx
      clgraph view graphs/
      clgraph view model.onnx --onnx folder && netron folder/*_plan_memory.onnx
    """
    views = [_view(replace(options, model=path), given, not no_run, seed) for path in (options.model, against) if path]
    if onnx is not None:
        say(f"programs    {write_onnx(onnx, views)} in {onnx}")
        if output is None:
            return
    text = page(document(views))
    path = output or Path(tempfile.mkdtemp(prefix="clgraph-")) / f"{options.model.stem}.html"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"the page cannot be written to {path}: {error.strerror or error}") from error
    say(f"page        {path}, {nbytes(path.stat().st_size)}")
    if output is None and not webbrowser.open(path.as_uri()):
        say("no browser was found: open it by hand")


def _view(options: ModelOptions, given: FeedOptions, run: bool, seed: int) -> ModelView:
    path = options.model
    if path.is_dir():
        return view_of_dump(path.name, path)
    if is_saved(path) or is_dump(path):
        raise OptionError(f"{path.name} was compiled before, and its passes are not known: give the ONNX file")

    def compile_into(folder: Path) -> Model:
        return compiled(replace(options, config={**options.config, "dump_graphs": folder}))

    def profile(model: Model) -> Profile | None:
        if not run or is_dry(options_of(options.where.device)):
            return None
        feeds = read_feeds(given, model.topology, options.shapes, say)
        shapes = dict(options.shapes) | {name: array.shape for name, array in feeds.items()}
        with working(f"running {path.name}"):
            return profiled(model, random_feeds(model, shapes, seed) | feeds)

    return view_of(path.name, compile_into, profile)
