"""Rectangles at any angle around parts of a mask: what follows a segmentation network, by NumPy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clgraph.core.frozen import frozen

Points = NDArray[np.float64]
"""[n][2]: x to the right, y down; a pixel covers the unit square from its own numbers on."""


@frozen
class Rectangle:
    """A rectangle at any angle.

    Attributes:
        center: x and y.
        axis: Unit vector along the first side.
        width, height: Lengths of the sides along ``axis`` and across it.
    """

    center: tuple[float, float]
    axis: tuple[float, float]
    width: float
    height: float

    def grown(self, distance: float) -> Rectangle:
        """Return the rectangle with every side moved outwards by *distance*."""
        return Rectangle(self.center, self.axis, self.width + 2 * distance, self.height + 2 * distance)

    def corners(self) -> Points:
        """Return the corners [4][2] clockwise as seen: of the two on the left the upper one first, its right one next.

        The order is that in which PP-OCR's networks were trained to see lines that are not level.
        """
        (x, y), (c, s) = self.center, self.axis
        along = np.array([c, s]) * self.width / 2
        across = np.array([-s, c]) * self.height / 2
        middle = np.array([x, y])
        found = np.stack(
            [middle - along - across, middle + along - across, middle + along + across, middle - along + across]
        )
        by_x = found[np.argsort(found[:, 0], kind="stable")]
        left, right = by_x[:2][np.argsort(by_x[:2, 1])], by_x[2:][np.argsort(by_x[2:, 1])]
        return np.stack([left[0], right[0], right[1], left[1]])


def connected(mask: NDArray[np.bool_]) -> list[Points]:
    """Return the outline points of every part of *mask* that hangs together, corners of pixels included.

    Rows are cut into runs, and runs that touch those of the row above are joined (union-find; 8 neighbours).

    Args:
        mask: [rows][columns].

    Returns:
        For each part, the ends of its rows: enough for its convex hull.
    """
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = (a.tolist() for a in np.nonzero(edges == 1))
    ends = np.nonzero(edges == -1)[1].tolist()
    parents = list(range(len(rows)))

    def root(i: int) -> int:
        while parents[i] != i:
            parents[i] = parents[parents[i]]
            i = parents[i]
        return i

    above = 0
    for i, row in enumerate(rows):
        while above < i and (rows[above] < row - 1 or (rows[above] == row - 1 and ends[above] < starts[i])):
            above += 1
        touching = above
        while touching < i and rows[touching] == row - 1 and starts[touching] <= ends[i]:
            parents[root(i)] = root(touching)
            touching += 1
    parts: dict[int, dict[int, tuple[int, int]]] = {}
    for i, row in enumerate(rows):
        spans = parts.setdefault(root(i), {})
        first, last = spans.get(row, (starts[i], ends[i]))
        spans[row] = min(first, starts[i]), max(last, ends[i])
    return [_outline(spans) for spans in parts.values()]


def _outline(spans: dict[int, tuple[int, int]]) -> Points:
    corners = [(x, y) for row, span in spans.items() for x in span for y in (row, row + 1)]
    return np.array(corners, np.float64)


def convex_hull(points: Points) -> Points:
    """Return the corners of the smallest convex polygon around *points* (Andrew's monotone chain, 1979)."""
    ordered = np.unique(points, axis=0).tolist()
    if len(ordered) < 3:
        return np.array(ordered, np.float64)
    chains = []
    for sequence in (ordered, ordered[::-1]):
        chain: list[list[float]] = []
        for point in sequence:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        chains += chain[:-1]
    return np.array(chains, np.float64)


def _turn(a: list[float], b: list[float], c: list[float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def smallest_rectangle(points: Points) -> Rectangle:
    """Return the rectangle of least area around *points*: one of its sides lies on an edge of the convex hull."""
    hull = convex_hull(points)
    sides = np.roll(hull, -1, axis=0) - hull
    axes = sides / np.linalg.norm(sides, axis=1, keepdims=True)
    along = hull @ axes.T
    across = hull @ np.stack([-axes[:, 1], axes[:, 0]])
    widths, heights = np.ptp(along, axis=0), np.ptp(across, axis=0)
    best = int(np.argmin(widths * heights))
    c, s = axes[best]
    u = (along[:, best].max() + along[:, best].min()) / 2
    v = (across[:, best].max() + across[:, best].min()) / 2
    return Rectangle((c * u - s * v, s * u + c * v), (c, s), float(widths[best]), float(heights[best]))


def mean_inside(values: NDArray[np.float32], rectangle: Rectangle) -> float:
    """Return the mean of *values* [rows][columns] over the pixels whose middle lies in *rectangle*; 0 without any."""
    corners = rectangle.corners()
    (left, top) = np.maximum(np.floor(corners.min(0)).astype(int), 0)
    (right, bottom) = np.ceil(corners.max(0)).astype(int)
    part = values[top:bottom, left:right]
    y, x = np.mgrid[: part.shape[0], : part.shape[1]] + 0.5
    dx, dy = x + left - rectangle.center[0], y + top - rectangle.center[1]
    c, s = rectangle.axis
    inside = (np.abs(dx * c + dy * s) <= rectangle.width / 2) & (np.abs(dy * c - dx * s) <= rectangle.height / 2)
    return float(part[inside].mean()) if inside.any() else 0.0
