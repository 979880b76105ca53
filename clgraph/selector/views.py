"""Views of tensors, by which general kernels find elements: an origin, and a pitch for each axis that they count."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape


@frozen
class View:
    """Where coordinates lie in a tensor: element offset of the first, elements from one index to the next."""

    origin: int
    pitches: tuple[int, ...]

    @staticmethod
    def of(layout: Layout, shape: Shape | None = None) -> View:
        """Return the view of a tensor without blocks, broadcast to *shape* from the right as NumPy does."""
        if shape is None:
            return View(layout.origin, layout.all_pitches)
        missing = len(shape) - layout.rank
        rows = zip(layout.shape, layout.all_pitches, shape[missing:], strict=True)
        return View(layout.origin, (0,) * missing + tuple(0 if d == 1 and n != 1 else p for d, p, n in rows))

    def along(self, axes: Sequence[int]) -> View:
        """Return the same view with its axes in another order."""
        return View(self.origin, tuple(self.pitches[a] for a in axes))

    def ints(self) -> tuple[int, ...]:
        """Return the view as a kernel reads it."""
        return (self.origin, *self.pitches)


@frozen
class Space:
    """The axes that a kernel counts, in groups (the rows, then what is in a row), and the views on them.

    Attributes:
        groups: How many axes each group has; at least one.
    """

    dims: tuple[int, ...]
    groups: tuple[int, ...]
    views: tuple[View, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements of each group."""
        ends = [sum(self.groups[: i + 1]) for i in range(len(self.groups))]
        return tuple(prod(self.dims[end - n : end]) for end, n in zip(ends, self.groups, strict=True))


def space(dims: Shape, views: Sequence[View], groups: Sequence[Sequence[int]] | None = None) -> Space:
    """Return the space of *dims* with axes merged that lie behind one another in every view.

    Args:
        groups: The axes in the order to count them; axes of different groups are not merged. One group of all by
            default.
    """
    merged: list[int] = []
    counts: list[int] = []
    columns: list[list[int]] = []
    for group in groups if groups is not None else [range(len(dims))]:
        start = len(merged)
        for axis in group:
            pitches = [v.pitches[axis] for v in views]
            if dims[axis] == 1:
                continue
            behind = len(merged) > start and all(
                before == now * dims[axis] for before, now in zip(columns[-1], pitches, strict=True)
            )
            if behind:
                merged[-1] *= dims[axis]
                columns[-1] = pitches
            else:
                merged.append(dims[axis])
                columns.append(pitches)
        if len(merged) == start:
            merged.append(1)
            columns.append([0] * len(views))
        counts.append(len(merged) - start)
    found = tuple(View(v.origin, tuple(c[i] for c in columns)) for i, v in enumerate(views))
    return Space(tuple(merged), tuple(counts), found)


def lanes_of(dims: Shape, views: Sequence[View], most: int) -> int:
    """Return how many elements, a power of two up to *most*, lie behind one another all along the last axis of *dims*.

    They do so in every one of *views*, and start at multiples of their number everywhere.
    """
    starts = [n for v in views for n in (v.origin, *v.pitches[:-1])]
    return 1 if any(v.pitches[-1] != 1 for v in views) else gcd(most, dims[-1], *starts)


def in_vectors(s: Space, lanes: int) -> Space:
    """Return *s* with *lanes* elements of the last axis as one, in counts and pitches; those of 1 lane are elements."""
    if lanes == 1:
        return s
    views = [View(v.origin // lanes, (*(p // lanes for p in v.pitches[:-1]), 1)) for v in s.views]
    return Space((*s.dims[:-1], s.dims[-1] // lanes), s.groups, tuple(views))
