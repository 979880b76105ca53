"""Logical NumPy arrays out of device memory of any layout, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.core.aligned import aligned
from clgraph.errors import DeviceMemoryError, ProgramError

if TYPE_CHECKING:
    from clgraph.core.layout import Layout
    from clgraph.graph.node import Value
    from clgraph.graph.primitive import Array


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new C-contiguous array whose first byte is aligned.

    Raises:
        DeviceMemoryError: The host has no memory left for it.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    try:
        return np.ndarray(shape, dtype, aligned(nbytes))
    except MemoryError as error:
        raise DeviceMemoryError(f"the host has no {nbytes} bytes left for an array {dtype} {list(shape)}") from error


def gather(memory: Array, layout: Layout) -> Array:
    """Return the logical array that flat *memory* (``layout.span`` elements) holds, whatever its pitches."""
    blocks = _blocks(memory, layout)
    return np.ascontiguousarray(blocks.reshape(layout.extents)[_window(layout)]).reshape(layout.shape)


def scatter(array: Array, layout: Layout, memory: Array) -> None:
    """Write *array* into flat *memory*, halo and tail lanes as zeros; bytes between the rows stay as they are."""
    if array.shape != layout.shape or array.dtype != layout.dtype.numpy:
        raise ProgramError(f"an array {array.dtype} {array.shape} was made where the layout is {layout}")
    padded = np.zeros(layout.extents, layout.dtype.numpy)
    padded[_window(layout)] = array
    blocks = _blocks(memory, layout)
    blocks[...] = padded.reshape(blocks.shape)


def covers_span(layout: Layout) -> bool:
    """Whether every byte between the first and the last belongs to the layout."""
    return layout.span == math.prod(layout.extents)


def constant_array(value: Value) -> Array:
    """Return the logical array of a constant."""
    assert value.constant is not None
    return (
        value.constant
        if value.layout.format.is_plain and not value.layout.halo
        else gather(np.ravel(value.constant), value.layout)
    )


def _window(layout: Layout) -> tuple[slice, ...]:
    return tuple(slice(h[0], h[0] + s) for s, h in zip(layout.shape, layout.halos, strict=True))


def _blocks(memory: Array, layout: Layout) -> Array:
    """Return *memory* as an array of two axes a logical axis: its blocks, and inside a block."""
    shape: list[int] = []
    strides: list[int] = []
    axes = zip(layout.extents, layout.all_pitches, layout.inner_pitches, strict=True)
    for axis, (extent, pitch, inner) in enumerate(axes):
        block = layout.format.block(axis)
        shape += [extent // block, block]
        strides += [pitch * memory.itemsize, inner * memory.itemsize]
    # as_strided names the type by its kind and size, which says nothing of ml_dtypes' float8_e5m2 ("<f1").
    return np.ndarray(shape, memory.dtype, memory.view(np.uint8), strides=strides)
