"""An output as a picture."""

from __future__ import annotations

import numpy as np
from PIL import Image

from clgraph.errors import InputError
from clgraph.graph.primitive import Array


def as_picture(array: Array, name: str) -> tuple[Image.Image, str]:
    """Return an array of one or three channels, in front or behind, as a picture, and in words how.

    Raises:
        InputError: It has other axes.
    """
    values = array
    while values.ndim > 2 and values.shape[0] == 1:
        values = values[0]
    if values.ndim == 3 and values.shape[0] == 3 and values.shape[2] not in (1, 3):
        values = values.transpose(1, 2, 0)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if not (values.ndim == 2 or (values.ndim == 3 and values.shape[2] == 3)) or not values.size:
        raise InputError(f"output {name!r} of shape {'x'.join(map(str, array.shape))} is not a picture")
    if values.dtype == np.uint8:
        return Image.fromarray(values), ""
    real = np.nan_to_num(values.astype(np.float64))
    least, most = float(real.min()), float(real.max())
    if least >= 0 and most <= 1:
        least, most = 0.0, 1.0
    scaled = (real - least) * (255 / ((most - least) or 1))
    return Image.fromarray(scaled.round().astype(np.uint8)), f", {least:g} black, {most:g} white"
