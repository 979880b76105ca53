"""Layout of a tensor: element type, logical shape, memory format, halo and pitches."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered, remembered_with
from clgraph.errors import ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Shape = tuple[int, ...]
Halo = tuple[tuple[int, int], ...]
_UNSET = Format(())


@frozen
class Layout(Remembering):
    """Element type, logical shape (ONNX axis order), memory format, halo and pitches of one tensor.

    Attributes:
        halo: Elements of zeros (before, after) along each axis; empty for none. The producer writes them.
        pitches: Elements from one index of an axis to the next, or from one block to the next where the axis is
            blocked; empty for dense. A value that shares a larger buffer (a part of a concat) has the buffer's pitches.
    """

    dtype: DType
    shape: Shape
    format: Format = _UNSET
    halo: Halo = ()
    pitches: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        rank = len(self.shape)
        order = self.format.order
        if len(order) != rank:
            if order:
                raise ShapeError(f"format {self.format} does not fit the shape {list(self.shape)}")
            object.__setattr__(self, "format", Format.plain(rank))
        if rank > 8 or (rank and min(self.shape) < 0):
            raise ShapeError(f"shape {list(self.shape)} is not one of 0 to 8 sizes, each >= 0")
        if self.halo and not any(map(any, self.halo)):
            object.__setattr__(self, "halo", ())

    def __hash__(self) -> int:
        # The caches of selection hash layouts all the time; this calls nothing written in Python.
        return hash((self.dtype, self.shape, self.format.order, self.format.blocks, self.halo))

    @staticmethod
    def of(array: NDArray[Any]) -> Layout:
        """Return the plain layout of a NumPy array."""
        return _plain(array.dtype, array.shape)

    @property
    def rank(self) -> int:
        """Number of logical axes."""
        return len(self.shape)

    @property
    def count(self) -> int:
        """Logical elements."""
        return prod(self.shape)

    @property
    def halos(self) -> Halo:
        """The halo of every axis, (0, 0) where there is none."""
        return self.halo or ((0, 0),) * len(self.shape)

    def has_zeros(self, halo: Halo) -> bool:
        """Whether there are at least the zeros of *halo*, which has a pair for each axis, around it."""
        halos = self.halos
        return halos == halo or all(
            have[0] >= want[0] and have[1] >= want[1] for have, want in zip(halos, halo, strict=True)
        )

    @property
    def extents(self) -> Shape:
        """Elements along each axis in memory: shape plus halo, rounded up to whole blocks."""
        if not self.halo and not self.format.blocks:
            return self.shape
        sizes = list(self.shape)
        for axis, (before, after) in enumerate(self.halo):
            sizes[axis] += before + after
        for axis, block in self.format.blocks:
            sizes[axis] = -(-sizes[axis] // block) * block
        return tuple(sizes)

    @property
    def inner_pitches(self) -> tuple[int, ...]:
        """Elements from one index to the next inside a block; 0 for an axis without blocks."""
        inner, pitch = [0] * len(self.shape), 1
        for axis, size in reversed(self.format.blocks):
            inner[axis] = pitch
            pitch *= size
        return tuple(inner)

    @property
    def dense_pitches(self) -> tuple[int, ...]:
        """The pitches the layout has in a buffer of its own."""
        return self._dense[0]

    @property
    @remembered
    def _dense(self) -> tuple[tuple[int, ...], int]:
        """The pitches in a buffer of its own, and the elements of that."""
        pitch, steps = 1, list(self.extents)
        pitches = [0] * len(steps)
        for axis, block in self.format.blocks:
            pitch *= block
            steps[axis] //= block
        for axis in reversed(self.format.order):
            pitches[axis] = pitch
            pitch *= steps[axis]
        return tuple(pitches), pitch

    @property
    def all_pitches(self) -> tuple[int, ...]:
        """The pitch of every axis (of its blocks, where it is blocked)."""
        return self.pitches or self._dense[0]

    @property
    def origin(self) -> int:
        """Elements from the start of the memory to the logical element (0, 0, ...): what the halo takes before it."""
        return self._first if self.halo else 0

    @property
    @remembered
    def _first(self) -> int:
        first, pitches, blocked = 0, self.all_pitches, dict(self.format.blocks)
        for axis, (before, _) in enumerate(self.halo):
            if before and axis not in blocked:
                first += before * pitches[axis]
            elif before:
                blocks, rest = divmod(before, blocked[axis])
                first += blocks * pitches[axis] + (rest and rest * self.inner_pitches[axis])
        return first

    def offset(self, index: tuple[int, ...]) -> int:
        """Return the element offset of a logical index, halo included."""
        total, halos = 0, self.halos
        for axis, (i, pitch, inner) in enumerate(zip(index, self.all_pitches, self.inner_pitches, strict=True)):
            block, at = self.format.block(axis), i + halos[axis][0]
            total += (at // block) * pitch + (at % block) * inner
        return total

    @property
    def span(self) -> int:
        """Elements from the first to one past the last that belongs to this layout, halo and tail lanes included."""
        if not self.pitches:
            return self._dense[1] if self.halo or self.format.blocks else prod(self.shape)
        if 0 in self.extents:
            return 0
        ends = (
            (e // self.format.block(a) - 1) * p
            for a, (e, p) in enumerate(zip(self.extents, self.all_pitches, strict=True))
        )
        return sum(ends) + prod(size for _, size in self.format.blocks)

    @property
    def nbytes(self) -> int:
        """Bytes from the first to the last element."""
        dense = not (self.pitches or self.halo or self.format.blocks)
        return (prod(self.shape) if dense else self.span) * self.dtype.itemsize

    @property
    def is_dense_plain(self) -> bool:
        """Whether the bytes are those of a C-contiguous NumPy array."""
        return self.format.is_plain and not self.halo and (not self.pitches or self.pitches == self.dense_pitches)

    def plain(self) -> Layout:
        """Return the same tensor as NumPy would hold it."""
        if self.format.is_plain and not self.halo and not self.pitches:
            return self
        return self._made_plain()

    @remembered
    def _made_plain(self) -> Layout:
        return Layout(self.dtype, self.shape)

    def with_format(self, format: Format) -> Layout:
        """Return the same tensor, dense, in another format, keeping the halo."""
        if format is self.format and not self.pitches:
            return self
        return self._made_of(format)

    @remembered_with
    def _made_of(self, format: Format) -> Layout:
        return Layout(self.dtype, self.shape, format, self.halo)

    def with_halo(self, halo: Halo) -> Layout:
        """Return the same tensor, dense, with another halo."""
        return Layout(self.dtype, self.shape, self.format, halo)

    def with_pitches(self, pitches: tuple[int, ...]) -> Layout:
        """Return the same tensor with the pitches of a larger buffer."""
        return Layout(self.dtype, self.shape, self.format, self.halo, pitches)

    def with_shape(self, shape: Shape) -> Layout:
        """Return a dense plain tensor of the same type with another shape."""
        return Layout(self.dtype, shape)

    @remembered
    def __str__(self) -> str:
        text = f"{self.dtype}:{self.format}:{'x'.join(map(str, self.shape))}"
        if self.halo:
            text += "+" + ",".join(f"{b}.{a}" for b, a in self.halo)
        if self.pitches and self.pitches != self.dense_pitches:
            text += "/" + ",".join(map(str, self.pitches))
        return text


@lru_cache(maxsize=1024)
def _plain(dtype: np.dtype[Any], shape: Shape) -> Layout:
    """Return a plain layout: those of a model's constants are asked for at every build."""
    return Layout(DType.of(dtype), shape)
