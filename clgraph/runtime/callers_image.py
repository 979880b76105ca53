"""Images of OpenCL that a caller has made, copied to buffers on their device."""

from __future__ import annotations

from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import DeviceError, InputError
from clgraph.runtime import driver

_ONE, _FOUR = (0x10B0, 0x10B9, 0x10B8, 0x10B1), (0x10B5, 0x10B6, 0x10C1, 0x10C2)
"""Channel orders of one value (R, luminance, intensity, A) and of four (RGBA, BGRA, and both of sRGB)."""
_TYPES = {
    0x10D2: np.uint8,
    0x10DA: np.uint8,
    0x10D3: np.uint16,
    0x10DB: np.uint16,
    0x10DD: np.float16,
    0x10DE: np.float32,
}
"""Channel types whose elements NumPy has: whole numbers, as such or for 0 to 1, and floats."""


@frozen
class Pixels:
    """What an image holds: ``[rows][columns]``, or with four values a pixel."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def is_image(given: Any) -> bool:
    """Whether *given* is an image of pyopencl's; none is where OpenCL was not loaded."""
    return type(given).__module__.startswith("pyopencl") and hasattr(given, "get_image_info")


def pixels_of(image: Any) -> Pixels:
    """Return what *image* holds.

    Raises:
        InputError: It has three dimensions or is an array of images, has other channels, or has been released.
    """
    cl = driver.load()
    info = cl.image_info
    try:
        found = image.get_image_info(info.FORMAT)
        rows, columns = image.get_image_info(info.HEIGHT), image.get_image_info(info.WIDTH)
        flat = image.type == cl.mem_object_type.IMAGE2D
    except cl.Error as error:
        raise InputError(f"the image cannot be used: {error}") from error
    if not flat:
        raise InputError("an image is one of two dimensions: copy others to a buffer, plane by plane")
    dtype = _TYPES.get(found.channel_data_type)
    if dtype is None or found.channel_order not in (*_ONE, *_FOUR):
        raise InputError(
            f"an image of channel order {found.channel_order:#x} and type {found.channel_data_type:#x} is not "
            "supported: those of R, RGBA and BGRA in 8 or 16 bits or floats are"
        )
    return Pixels((rows, columns, 4) if found.channel_order in _FOUR else (rows, columns), np.dtype(dtype))


def copied(image: Any, queue: Any) -> Any:
    """Return a buffer with the pixels of *image*, whose rows lie behind one another; waits until they are there.

    Raises:
        InputError: As :func:`pixels_of`.
        DeviceError: The device of *queue* has no images, or the driver refuses it.
    """
    if not queue.device.image_support:
        raise DeviceError(f"{queue.device.name} has no images: give it a buffer")
    pixels = pixels_of(image)
    cl = driver.load()
    nbytes = int(np.prod(pixels.shape)) * pixels.dtype.itemsize
    try:
        buffer = cl.Buffer(image.context, cl.mem_flags.READ_WRITE, nbytes)
        rows, columns = pixels.shape[:2]
        cl._enqueue_copy_image_to_buffer(queue, image, buffer, (0, 0, 0), (columns, rows, 1), 0).wait()
    except cl.Error as error:
        raise DeviceError(f"the image cannot be copied: {error}") from error
    return buffer
