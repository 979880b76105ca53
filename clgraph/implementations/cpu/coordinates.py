"""Places of elements that are data: coordinates, each an index along an axis."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.selector.descriptor import Int, Long, fields

MOST = 6
"""Coordinates of a place."""


@fields
class CoordinateFields:
    """Sizes and pitches of the axes; indices from one coordinate to the next, how many, and whether of 8 bytes."""

    size_0: Long
    size_1: Long
    size_2: Long
    size_3: Long
    size_4: Long
    size_5: Long
    place_0: Long
    place_1: Long
    place_2: Long
    place_3: Long
    place_4: Long
    place_5: Long
    coordinate: Long
    depth: Int
    wide: Int


@frozen
class Coordinates:
    """The coordinates of a place.

    Attributes:
        axes: Of each, the size of its axis and the elements from one index to the next.
        step: Indices from one coordinate to the next.
    """

    axes: tuple[tuple[int, int], ...]
    step: int = 0

    def values(self, indices: Layout) -> dict[str, int]:
        """Return the values of :class:`CoordinateFields`."""
        axes = (*self.axes, *[(1, 0)] * (MOST - len(self.axes)))
        return {
            **{f"size_{i}": size for i, (size, _) in enumerate(axes)},
            **{f"place_{i}": pitch for i, (_, pitch) in enumerate(axes)},
            "coordinate": self.step,
            "depth": len(self.axes),
            "wide": int(indices.dtype == DType.I64),
        }
