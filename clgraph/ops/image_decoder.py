"""Pictures out of the bytes of their files: ONNX's ImageDecoder, by Pillow on the host."""

from __future__ import annotations

import io
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import InputError, ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, DataDependent, Primitive, primitive

_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


@primitive
@frozen
class ImageDecoder(DataDependent):
    """The pixels ``[height, width, channels]``, uint8, of a picture whose file is x, uint8 ``[bytes]``.

    Read is what Pillow reads: JPEG, JPEG 2000, PNG, BMP, TIFF, WebP, PNM and others.

    Attributes:
        pixel_format: ``RGB``, ``BGR``, or ``Grayscale`` with one channel.
    """

    pixel_format: str = "RGB"

    kind: ClassVar[str] = "image_decoder"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        from PIL import Image  # takes a while, and few models have pictures' files in them

        (x,) = inputs
        if x.ndim != 1:
            raise ShapeError(f"the bytes of a picture's file are a vector, not {list(x.shape)}")
        try:
            with Image.open(io.BytesIO(x.tobytes())) as picture:
                pixels = np.array(picture.convert(_MODES[self.pixel_format]))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"its input is not a picture that Pillow reads: {error}") from error
        if self.pixel_format == "BGR":
            pixels = np.ascontiguousarray(pixels[:, :, ::-1])
        return (np.atleast_3d(pixels),)


@onnx("ImageDecoder", since=(20,))
def import_image_decoder(node: OnnxNode) -> Primitive:
    pixel_format = node.attribute("pixel_format", "RGB")
    if pixel_format not in _MODES:
        raise node.unsupported(f"pixel_format {pixel_format!r} is not one of {', '.join(_MODES)}")
    return ImageDecoder(pixel_format)
