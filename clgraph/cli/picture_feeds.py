"""Conversion of a picture to the array that an input expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from clgraph.cli.picture_options import PictureOptions
from clgraph.core.dtype import DType
from clgraph.core.layout import Shape
from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.ops.preprocess import Preprocess


def picture_array(
    picture: Image.Image, signature: Signature, shape: Shape | None, options: PictureOptions
) -> tuple[Array, str]:
    """Return *picture* as the array that an input expects, and in words how.

    It is scaled to the input's size, and repeated for a batch.

    Raises:
        InputError: The input is not one for pictures.
    """
    wanted: Sequence[Any] = shape or signature.shape or ()
    layout = options.layout or _guess(wanted)
    if signature.host_type or layout is None or (wanted and len(wanted) != len(layout)):
        raise InputError(
            f"input {signature} does not have the shape of a picture; give the order of its axes: --layout, --shape"
        )
    sizes = dict(zip(layout, wanted or (None,) * len(layout), strict=True))
    width = sizes["w"] if isinstance(sizes["w"], int) else picture.width
    height = sizes["h"] if isinstance(sizes["h"], int) else picture.height
    grey = "c" not in layout or sizes["c"] == 1
    if not grey and sizes["c"] != 3 and isinstance(sizes["c"], int):
        raise InputError(f"input {signature} has {sizes['c']} channels, not those of a picture")
    dtype = signature.dtype or DType.F32
    mean = options.mean or (0.0,)
    scale = options.scale or ((255.0,) if dtype.floating else (1.0,))
    pixels = np.asarray(picture.convert("L" if grey else "RGB").resize((width, height), Image.Resampling.BILINEAR))
    values = (np.atleast_3d(pixels) - np.array(mean)) / np.array(scale) if (mean, scale) != ((0,), (1,)) else pixels
    values = np.atleast_3d(values)
    if values.shape[2] != (1 if grey else 3):
        raise InputError(f"--mean and --scale have {max(len(mean), len(scale))} numbers for one channel")
    if not grey and options.channels == "bgr":
        values = values[:, :, ::-1]
    axes = {"h": 0, "w": 1, "c": 2}
    order = [axes[a] for a in layout if a != "n"]
    array = values.transpose([*order, *(a for a in (0, 1, 2) if a not in order)])
    array = array.reshape([1 if a == "n" else values.shape[axes[a]] for a in layout])
    about = "grey" if grey else options.channels
    count = sizes["n"] if isinstance(sizes.get("n"), int) else 1
    array = np.concatenate([array] * count) if count > 1 else array
    how = (
        f"{picture.width}x{picture.height} as {about} {layout} {'x'.join(map(str, array.shape))} {dtype}, "
        f"(value - {_list(mean)}) / {_list(scale)}"
    )
    if 0 < max(mean) < 1:
        whole = (_list([255 * n for n in numbers]) for numbers in (mean, scale))
        how += "; values are 0 to 255: for means of 0 to 1, --mean {} --scale {}".format(*whole)
    return np.ascontiguousarray(array.astype(dtype.numpy)), how


def image_array(picture: Image.Image, name: str, done: Preprocess) -> tuple[Array, str]:
    """Return *picture* as bytes of the kind that input *name* is fed, and in words how.

    Raises:
        InputError: They are frames of video, which pictures are not.
    """
    if done.image.startswith("NV12"):
        raise InputError(f"input {name!r} is fed frames in {done.image}, which no picture is: give a .npy file")
    modes = {"GRAY": "L", "RGBA": "RGBA", "BGRA": "RGBA"}
    pixels = np.asarray(picture.convert(modes.get(done.image, "RGB")))
    if done.image.startswith("BGR"):
        pixels = pixels[:, :, [2, 1, 0, 3][: pixels.shape[2]]]
    how = f"{done.image} {'x'.join(map(str, pixels.shape))} as it is"
    return np.ascontiguousarray(pixels[None] if done.batch else pixels), how


def _guess(shape: Sequence[Any]) -> str | None:
    """Return the layout that *shape* looks like: one or three channels in front of the rows, or behind the columns."""
    colours = (1, 3)
    if len(shape) == 4:
        return "nhwc" if shape[3] in colours and shape[1] not in colours else "nchw"
    if len(shape) == 3:
        return "chw" if shape[0] in colours and shape[2] not in colours else "hwc" if shape[2] in colours else "nhw"
    return "hw" if len(shape) == 2 else None


def _list(numbers: Sequence[float]) -> str:
    return ",".join(f"{n:g}" for n in numbers)
