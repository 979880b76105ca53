"""Arrays for a model's inputs, out of what ``--input`` names: ``.npy`` and ``.npz`` files, and pictures."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from clgraph.cli.options import refuse_idle, taking
from clgraph.cli.picture_options import PICTURE_OPTIONS, PictureOptions, picture_options
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.ops.preprocess import image_inputs

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = (".npy", ".npz")

_HELP = "Array (.npy, .npz) or picture of an input; the name may be left out where there is one input, or in an .npz."
_OPTIONS = (
    click.option("--input", "inputs", multiple=True, metavar="[NAME=]FILE", help=_HELP),
    *PICTURE_OPTIONS,
)


@frozen
class FeedOptions:
    """What ``--input`` and the options of pictures say."""

    inputs: tuple[str, ...]
    pictures: PictureOptions


def feed_options(command: F) -> F:
    """Decorator: add the options of :class:`FeedOptions`, passed on as ``given``."""
    return taking(command, _OPTIONS, "given", _given)


def _given(arguments: dict[str, Any]) -> FeedOptions:
    inputs = arguments.pop("inputs")
    some = any(Path(text).suffix.lower() not in _ARRAYS for text in inputs)
    return FeedOptions(inputs, picture_options(arguments, some))


def read_feeds(
    given: FeedOptions, topology: Topology, shapes: Mapping[str, Shape], say: Callable[[str], None]
) -> dict[str, Array]:
    """Return arrays by name, and *say* how each picture was turned into one.

    Args:
        shapes: Of inputs whose size is open: what a picture is scaled to.

    Raises:
        InputError: A file is missing or is not one of these, an input is unknown, or a picture does not fit its input.
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
        if len(topology.fed) != 1:
            raise InputError(f"--input {text!r} names no input; give NAME=FILE, the inputs are {_names(topology)}")
        (name,), file = topology.fed, text
    if name not in topology.inputs:
        raise InputError(f"no input is called {name!r}; the inputs are {_names(topology)}")
    path, signature = Path(file), topology.inputs[name]
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.suffix.lower() not in _ARRAYS:
        # Pillow takes a while to import, and most runs need no picture.
        from clgraph.cli.picture_feeds import image_array, picture_array
        from clgraph.demo.pictures import open_picture

        if (done := image_inputs(topology).get(name)) is not None:
            for flag in ("layout", "channels", "mean", "scale"):
                refuse_idle(flag, "where images are fed as they are: --preprocess says it")
            array, how = image_array(open_picture(path), name, done)
        else:
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
        # NumPy takes what it does not know for objects, and advises to load them.
        why = "it is damaged, or its arrays hold Python objects" if "pickle" in str(error) else error
        raise InputError(f"{path} is not a .npy or .npz file of numbers: {why}") from error


def _named(loaded: Any, path: Path, topology: Topology) -> dict[str, Array]:
    if isinstance(loaded, np.ndarray):
        raise InputError(f"{path} is one array without a name; call it .npy")
    if unknown := [name for name in loaded if name not in topology.inputs]:
        raise InputError(f"{path} holds {unknown[0]!r}, which is not an input; the inputs are {_names(topology)}")
    arrays: dict[str, Array] = loaded
    return arrays


def _names(topology: Topology) -> str:
    return ", ".join(map(repr, topology.fed)) or "none"
