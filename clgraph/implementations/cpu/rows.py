"""Plain tensors as rows: axes that are walked as one, operators a row at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered_with
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES
from clgraph.selector.descriptor import PostStep
from clgraph.selector.implementation import Implementation
from clgraph.selector.post import post_steps
from clgraph.selector.query import Query

P = TypeVar("P", bound=Primitive)

_BESIDE = 4
"""Vectors that take as long as what is done once a row."""


@frozen(guarded=False)
class Axis:
    """One axis of a loop nest: its size and the pitch of every tensor along it."""

    size: int
    pitches: tuple[int, ...]


def merge(axes: Sequence[Axis]) -> list[Axis]:
    """Return *axes* without those of size 1, neighbours merged where every tensor walks them as one."""
    merged: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if merged and merged[-1].pitches == tuple([axis.size * p for p in axis.pitches]):
            merged[-1] = Axis(merged[-1].size * axis.size, axis.pitches)
        else:
            merged.append(axis)
    return merged


def broadcast_pitches(layout: Layout, rank: int) -> tuple[int, ...]:
    """Return the pitch along each of the last *rank* axes, 0 where the tensor has none or size 1."""
    own = tuple([p if s > 1 else 0 for s, p in zip(layout.shape, layout.all_pitches, strict=True)])
    return (*(0,) * (rank - layout.rank), *own)


@frozen
class Rows:
    """Plain tensors as [images][planes][rows][width]; pitches of the input, the result, then each operand."""

    images: Axis
    rows: Axis
    width: Axis
    planes: Axis = Axis(1, ())


def as_rows(q: Query[Any], slot: int, operands: Sequence[int], within: int = 0) -> Rows | str:
    """Return input *slot*, the result and the *operands* as rows, or why they are none.

    The input and the result lie plain, the elements of a row side by side.

    Args:
        within: The first axis that a row may hold; those before are rows and images.
    """
    x, y = q.inputs[slot], q.outputs[0]
    tensors = [broadcast_pitches(x, y.rank), y.all_pitches, *(broadcast_pitches(q.inputs[s], y.rank) for s in operands)]
    nest = [Axis(size, pitches) for size, pitches in zip(y.shape, zip(*tensors, strict=True), strict=True)]
    axes = [*merge(nest[:within]), *merge(nest[within:])]
    one = Axis(1, (0,) * len(tensors))
    width = axes.pop() if axes and axes[-1].pitches[:2] == (1, 1) and prod(y.shape[within:]) > 1 else one
    if len(axes) > 2:
        return "walks three axes, and these tensors need more"
    rows = axes.pop() if axes else one
    return Rows(axes.pop() if axes else one, rows, width)


def row_pitches(rows: Rows, operand: int) -> tuple[int, int, int, int, int]:
    """Return the fields of a post-operation step for operand number *operand*; x counts vectors of 16 floats."""
    n, y, last = (axis.pitches[2 + operand] for axis in (rows.images, rows.rows, rows.width))
    return n, rows.planes.pitches[2 + operand] if rows.planes.size > 1 else 0, y, LANES * last, last


def row_posts(q: Query[Any], rows: Rows, first: int = 0) -> tuple[PostStep, ...]:
    """Return the list of post-operations on *rows*; *first*: the operand of *rows* that it reads first."""
    pitches = iter([row_pitches(rows, first + i) for i in range(len(q.post_slots))])
    return post_steps(q, lambda layout: next(pitches))


@remembered_with
def _rows(q: Query[Any], by: type[ByRows[Any]]) -> Rows | str:
    return by.rows(q)


class ByRows(Implementation[P]):
    """A row at a time, of a plain tensor whose last axes the rows are."""

    @classmethod
    @abstractmethod
    def width(cls, q: Query[P]) -> int:
        """Return the elements of a row."""

    @classmethod
    @abstractmethod
    def rows(cls, q: Query[P]) -> Rows | str:
        """Return the rows, or why there are none."""

    @classmethod
    def limits(cls, q: Query[P]) -> str | None:
        rows = _rows(q, cls)
        return rows if isinstance(rows, str) else post_refusal(q)

    @classmethod
    def planned(cls, q: Query[P]) -> tuple[Rows, TicketRanges, tuple[PostStep, ...]]:
        """Return the rows of what ``limits`` does not refuse, how they are cut, the list of post-operations."""
        rows = _rows(q, cls)
        if isinstance(rows, str):
            raise TypeError(rows)
        return rows, cls._tickets(q), row_posts(q, rows)

    @classmethod
    def _tickets(cls, q: Query[P]) -> TicketRanges:
        width = cls.width(q)
        return runs(q.inputs[0].count // max(1, width), cls._row_vectors(q) * cls.vector_seconds(q), q.device)

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        vectors = q.inputs[0].count // cls.width(q) * cls._row_vectors(q)
        return step_seconds(q.device, vectors * cls.vector_seconds(q), 2 * q.inputs[0].nbytes, cls._tickets(q).count)

    @classmethod
    def _row_vectors(cls, q: Query[P]) -> int:
        return -(-cls.width(q) // LANES) + _BESIDE

    @classmethod
    @abstractmethod
    def vector_seconds(cls, q: Query[P]) -> float:
        """Return one worker's time for 16 elements of a row."""
