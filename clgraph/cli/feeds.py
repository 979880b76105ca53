"""Arrays for a model's inputs, out of what ``--input`` names: ``.npy`` and ``.npz`` files, and pictures."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from clgraph.cli.options import refuse_idle, taking
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = (".npy", ".npz")
LAYOUTS = ("nchw", "nhwc", "chw", "hwc", "nhw", "hw")

_HELP = "Array (.npy, .npz) or picture of an input; the name may be left out where there is one input, or in an .npz."
_OPTIONS = (
    click.option("--input", "inputs", multiple=True, metavar="[NAME=]FILE", help=_HELP),
    click.option("--layout", type=click.Choice(LAYOUTS), help="Axes of inputs that pictures are for; else guessed."),
    click.option(
        "--channels", type=click.Choice(["rgb", "bgr"]), default="rgb", show_default=True, help="Their order."
    ),
    click.option("--mean", metavar="R,G,B", help="Taken off the pictures' values of 0 to 255.  [default: 0]"),
    click.option("--scale", metavar="R,G,B", help="Divides them then.  [default: 255; 1 for integers]"),
)


@frozen
class PictureOptions:
    """How pictures become arrays: (value - mean) / scale, in the order of *channels*; ``None`` is guessed."""

    layout: str | None = None
    channels: str = "rgb"
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None


@frozen
class FeedOptions:
    """What ``--input`` and the options of pictures say."""

    inputs: tuple[str, ...]
    pictures: PictureOptions


def feed_options(command: F) -> F:
    """Decorator: add the options of :class:`FeedOptions`, passed on as ``given``."""
    return taking(command, _OPTIONS, "given", _given)


def _given(arguments: dict[str, Any]) -> FeedOptions:
    layout, channels = arguments.pop("layout"), arguments.pop("channels")
    mean, scale = (_numbers(f"--{name}", arguments.pop(name)) for name in ("mean", "scale"))
    inputs = arguments.pop("inputs")
    if not any(Path(text).suffix.lower() not in _ARRAYS for text in inputs):
        for flag in ("layout", "channels", "mean", "scale"):
            refuse_idle(flag, "where no --input is a picture")
    return FeedOptions(inputs, PictureOptions(layout, channels, mean, scale))


def read_feeds(
    given: FeedOptions, topology: Topology, shapes: Mapping[str, Shape], say: Callable[[str], None]
) -> dict[str, Array]:
    """Return arrays by name, and *say* how each picture was turned into one.

    Args:
        shapes: Of inputs whose size is open: what a picture is scaled to.

    Raises:
        InputError: A file is missing or is none of these, a name is no input's, or a picture does not fit its input.
    """
    found: dict[str, Array] = {}
    for text in given.inputs:
        for name, array in _read(text, given.pictures, topology, shapes, say).items():
            if name in found:
                raise InputError(f"input {name!r} is given twice")
            found[name] = array
    return found


def _read(
    text: str, pictures: PictureOptions, topology: Topology, shapes: Mapping[str, Shape], say: Callable[[str], None]
) -> dict[str, Array]:
    name, equals, file = text.rpartition("=")
    if not equals and Path(text).suffix.lower() == ".npz":
        return _named(_load(Path(text)), Path(text), topology)
    if not equals:
        if len(topology.inputs) != 1:
            raise InputError(f"--input {text!r} names no input; give NAME=FILE, the inputs are {_names(topology)}")
        (name,), file = topology.inputs, text
    if name not in topology.inputs:
        raise InputError(f"no input is called {name!r}; the inputs are {_names(topology)}")
    path, signature = Path(file), topology.inputs[name]
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.suffix.lower() not in _ARRAYS:
        # Pillow takes a while to import, and most runs need no picture.
        from clgraph.cli.picture_feeds import picture_array
        from clgraph.demo.pictures import open_picture

        array, how = picture_array(open_picture(path), signature, shapes.get(name), pictures)
        say(f"input       {name}: {path.name} {how}")
        return {name: array}
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        return {name: loaded}
    if len(loaded) != 1:
        raise InputError(f"{path} holds {len(loaded)} arrays; give it without a name, or one .npy file an input")
    return {name: next(iter(loaded.values()))}


def _load(path: Path) -> Any:
    """Return the array of a .npy file, or those of an .npz by name."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            return {name: found[name] for name in found.files}
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is no .npy or .npz file of numbers: {error}") from error


def _named(loaded: Any, path: Path, topology: Topology) -> dict[str, Array]:
    if isinstance(loaded, np.ndarray):
        raise InputError(f"{path} is one array without a name; call it .npy")
    if unknown := [name for name in loaded if name not in topology.inputs]:
        raise InputError(f"{path} holds {unknown[0]!r}, which is no input; the inputs are {_names(topology)}")
    arrays: dict[str, Array] = loaded
    return arrays


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


def _names(topology: Topology) -> str:
    return ", ".join(map(repr, topology.inputs)) or "none"
