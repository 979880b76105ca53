"""Plain tensors as columns: sixteen neighbours are computed at a time, along the axes in front of them."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import TypeVar

from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.selector.descriptor import Int, fields
from clgraph.selector.implementation import Implementation
from clgraph.selector.query import Query

P = TypeVar("P", bound=Primitive)


@frozen
class Columns:
    """A dense plain tensor as ``[images][count][inner]``: sixteen neighbours along *inner* are computed at a time."""

    images: int
    count: int
    inner: int

    @staticmethod
    def of(shape: Shape, first: int, last: int) -> Columns:
        """Return the columns along axes *first* to *last*."""
        return Columns(prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :]))

    @property
    def vectors(self) -> int:
        """Vectors of an image's columns; the last may not be full."""
        return -(-self.inner // LANES)


@fields
class ColumnFields:
    """Sizes of the columns; vectors of an image and of a ticket."""

    images: Int
    count: Int
    inner: Int
    vectors: Int
    ticket_vectors: Int


class ByColumns(Implementation[P]):
    """Sixteen columns at a time, of a dense plain tensor."""

    @classmethod
    @abstractmethod
    def columns(cls, q: Query[P]) -> Columns:
        """Return the columns."""

    @classmethod
    @abstractmethod
    def vector_seconds(cls, q: Query[P]) -> float:
        """Return one worker's time for 16 elements."""

    @classmethod
    def limits(cls, q: Query[P]) -> str | None:
        if not q.inputs[0].is_dense_plain or not q.outputs[0].is_dense_plain:
            return "serves dense plain tensors"
        return None

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        vectors, each, tickets = cls._work(q)
        return step_seconds(q.device, vectors * each, 2 * q.inputs[0].nbytes, tickets.count)

    @classmethod
    def cut(cls, q: Query[P]) -> tuple[int, dict[str, int]]:
        """Return the number of tickets, and the values of :class:`ColumnFields`."""
        columns, (_, _, tickets) = cls.columns(q), cls._work(q)
        values = {
            "images": columns.images,
            "count": columns.count,
            "inner": columns.inner,
            "vectors": columns.vectors,
            "ticket_vectors": tickets.each,
        }
        return tickets.count, values

    @classmethod
    def _work(cls, q: Query[P]) -> tuple[int, float, TicketRanges]:
        """Return the vectors of all columns, one worker's seconds for one, and how they are cut into tickets."""
        columns = cls.columns(q)
        vectors, each = columns.images * columns.vectors, columns.count * cls.vector_seconds(q)
        return vectors, each, runs(vectors, each, q.device)
