"""Arrays as the memory of a layout, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.core.layout import Layout
from clgraph.errors import ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pack(array: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return *array* as the flat memory of *layout*: blocks and halo filled with zeros.

    Raises:
        ShapeError: *array* has another shape, or the layout has pitches of a larger buffer.
    """
    if array.shape != layout.shape or layout.pitches not in ((), layout.dense_pitches):
        raise ShapeError(f"an array {array.shape} cannot be packed as {layout}")
    pads = [(h[0], e - s - h[0]) for s, e, h in zip(layout.shape, layout.extents, layout.halos, strict=True)]
    padded = np.asarray(array, layout.dtype.numpy)
    if any(map(any, pads)):
        padded = np.pad(padded, pads)
    return np.ascontiguousarray(_split(padded, layout)).ravel()


def unpack(memory: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return the logical, C-contiguous array held by flat *memory* in a dense *layout*; inverse of :func:`pack`."""
    format, extents = layout.format, layout.extents
    outer = [extents[a] // format.block(a) for a in format.order]
    split = memory[: layout.span].reshape([*outer, *(size for _, size in format.blocks)])
    position = {("outer", a): i for i, a in enumerate(format.order)}
    position |= {("inner", a): len(outer) + i for i, (a, _) in enumerate(format.blocks)}
    axes = [position[key] for a in range(layout.rank) for key in (("outer", a), ("inner", a)) if key in position]
    padded = split.transpose(axes).reshape(extents)
    window = tuple(slice(h[0], h[0] + s) for s, h in zip(layout.shape, layout.halos, strict=True))
    return np.ascontiguousarray(padded[window]).reshape(layout.shape)


def _split(padded: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Return the array with its axes split into blocks and put into memory order."""
    shape: list[int] = []
    at: dict[tuple[str, int], int] = {}
    for axis, extent in enumerate(layout.extents):
        block = layout.format.block(axis)
        at["outer", axis] = len(shape)
        shape.append(extent // block)
        if block > 1 or any(a == axis for a, _ in layout.format.blocks):
            at["inner", axis] = len(shape)
            shape.append(block)
    order = [at["outer", a] for a in layout.format.order] + [at["inner", a] for a, _ in layout.format.blocks]
    return padded.reshape(shape).transpose(order)
