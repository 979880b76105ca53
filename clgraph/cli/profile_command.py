"""``clgraph profile``."""

from __future__ import annotations

from pathlib import Path

import click

from clgraph.cli.compiling import load, random_feeds
from clgraph.cli.feeds import FeedOptions, feed_options, read_feeds
from clgraph.cli.options import ModelOptions, model_options
from clgraph.cli.output import json_option, remark, say, say_json
from clgraph.cli.profile_report import show
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.errors import OptionError
from clgraph.explorer.document import document
from clgraph.explorer.making import profiled, view_of_run
from clgraph.explorer.page import page
from clgraph.explorer.profile_picture import to_svg
from clgraph.model.model import Model
from clgraph.network.profile import Profile


@click.command(cls=SectionedCommand, name="profile")
@model_options
@feed_options
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write a Chrome trace to this file.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the profile: FILE.html is an interactive page, FILE.svg a picture.",
)
@click.option("--top", default=0, metavar="N", help="Show only the N slowest commands.")
@json_option
def command(
    options: ModelOptions,
    given: FeedOptions,
    seed: int,
    trace: Path | None,
    picture: Path | None,
    top: int,
    as_json: bool,
) -> None:
    """Measure the time of every node of MODEL, slowest first.

    Times are measured by the device. The estimate is for the whole node (see `clgraph explain`); ! marks a node whose
    time differs from it by a factor of ten or more. Tickets are the units of work of a tile function; idle is the
    average time that workers spent without one (persistent executor only). GFLOP/s and GB/s are the arithmetic and the
    sizes of inputs and outputs per second. The roofline is the minimum time at the device's peak rates, estimated by
    the cost model (`clgraph devices -v`); nodes whose data is still in a cache may be faster. A transfer copies a value
    from one device to another. With several devices, a subgraph is bound and submitted to one of them as a unit.

    \b
    Examples:
      clgraph profile model.onnx --shape x=1,3,224,224
      clgraph profile model.onnx --input x=image.npy --trace trace.json
      clgraph profile model.onnx --picture profile.html
    """
    if picture is not None and picture.suffix not in (".html", ".svg"):
        raise click.UsageError(f"--picture draws FILE.html or FILE.svg, not {picture}")
    model = load(options)
    feeds = read_feeds(given, model.topology, options.shapes, (lambda text: remark([text])) if as_json else say)
    shapes = dict(options.shapes) | {name: array.shape for name, array in feeds.items()}
    feeds = random_feeds(model, shapes, seed) | feeds
    with working("running"):
        profile = profiled(model, feeds)
    if trace is not None:
        _trace(trace, profile)
    if picture is not None:
        _draw(picture, options.model.name, model, profile)
    if as_json:
        say_json({"device": model.device.name, "seconds": profile.seconds, "profile": profile})
        return
    show(profile, model.device, top or None)
    if trace is not None:
        say(f"trace {trace}")
    if picture is not None:
        say(f"picture {picture}")


def _trace(path: Path, profile: Profile) -> None:
    try:
        profile.save_trace(path)
    except OSError as error:
        raise OptionError(f"the trace cannot be written to {path}: {error.strerror or error}") from error


def _draw(path: Path, name: str, model: Model, profile: Profile) -> None:
    if path.suffix == ".svg":
        title = f"{name} on {model.device.name}: {profile.seconds * 1e3:.2f} ms in {len(profile.commands)} commands"
        text = to_svg(profile, title)
    else:
        text = page(document([view_of_run(name, model, profile)], opens="time"))
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"the picture cannot be written to {path}: {error.strerror or error}") from error
