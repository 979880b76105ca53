"""The options that say how pictures become arrays."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from clgraph.cli.options import refuse_idle
from clgraph.core.frozen import frozen

LAYOUTS = ("nchw", "nhwc", "chw", "hwc", "nhw", "hw")

PICTURE_OPTIONS = (
    click.option("--layout", type=click.Choice(LAYOUTS), help="Layout of the inputs for pictures.  [default: guessed]"),
    click.option(
        "--channels",
        type=click.Choice(["rgb", "bgr"]),
        default="rgb",
        show_default=True,
        help="Channel order of the pictures.",
    ),
    click.option("--mean", metavar="R,G,B", help="Mean subtracted from pixel values of 0 to 255.  [default: 0]"),
    click.option(
        "--scale",
        metavar="R,G,B",
        help="Divisor of pixel values after subtracting the mean.  [default: 255; 1 for integers]",
    ),
)


@frozen
class PictureOptions:
    """How pictures become arrays: (value - mean) / scale, in the order of *channels*; ``None`` is guessed."""

    layout: str | None = None
    channels: str = "rgb"
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None


def picture_options(arguments: dict[str, Any], some: bool) -> PictureOptions:
    """Remove the options of ``PICTURE_OPTIONS`` from *arguments* and return them; without *some* pictures, refuse."""
    layout, channels = arguments.pop("layout"), arguments.pop("channels")
    mean, scale = (_numbers(f"--{name}", arguments.pop(name)) for name in ("mean", "scale"))
    if not some:
        for flag in ("layout", "channels", "mean", "scale"):
            refuse_idle(flag, "where no --input is a picture")
    return PictureOptions(layout, channels, mean, scale)


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        numbers = tuple(float(number) for number in text.split(","))
    except ValueError as error:
        raise click.UsageError(f"{option} {text!r} is not a number, or one a channel: R,G,B") from error
    if len(numbers) not in (1, 3) or not np.isfinite(numbers).all():
        raise click.UsageError(f"{option} {text!r} is not a number, or one a channel: R,G,B")
    if option == "--scale" and 0 in numbers:
        raise click.UsageError("--scale divides: it cannot be 0")
    return numbers
