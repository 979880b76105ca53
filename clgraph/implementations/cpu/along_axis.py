"""Operators along an axis of plain tensors: a line of it at a time, or neighbouring lines side by side."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, TypeVar

from clgraph.core.dtype import DType
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.columns import Columns
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.element_types import RUN
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.selector.descriptor import Int, fields
from clgraph.selector.implementation import Implementation
from clgraph.selector.query import Query

P = TypeVar("P", bound=Primitive)


@fields
class LineFields:
    """Elements of a line, lines of an image, runs of those; pieces of the tensor and of a ticket."""

    count: Int
    inner: Int
    inner_runs: Int
    pieces: Int
    ticket_pieces: Int


class AlongAxis(Implementation[P]):
    """A piece at a time of a dense plain tensor: a line where its elements are neighbours, else a run of lines.

    Attributes:
        widest: The lines of a run.
    """

    widest: ClassVar[int] = RUN

    @classmethod
    @abstractmethod
    def columns(cls, q: Query[P]) -> Columns:
        """Return the lines, as columns."""

    @classmethod
    @abstractmethod
    def piece_seconds(cls, q: Query[P], columns: Columns) -> float:
        """Return one worker's time for a piece."""

    @classmethod
    def limits(cls, q: Query[P]) -> str | None:
        if not q.inputs[0].is_dense_plain or not q.outputs[0].is_dense_plain:
            return "serves dense plain tensors"
        if q.inputs[0].dtype == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        columns = cls.columns(q)
        work = cls._pieces(columns) * cls.piece_seconds(q, columns)
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, work, moved, cls._tickets(q, columns).count)

    @classmethod
    def cut(cls, q: Query[P]) -> tuple[int, dict[str, int]]:
        """Return the number of tickets, and the values of :class:`LineFields`."""
        columns = cls.columns(q)
        tickets = cls._tickets(q, columns)
        values = {
            "count": columns.count,
            "inner": columns.inner,
            "inner_runs": -(-columns.inner // cls.widest),
            "pieces": cls._pieces(columns),
            "ticket_pieces": tickets.each,
        }
        return tickets.count, values

    @classmethod
    def _pieces(cls, columns: Columns) -> int:
        return columns.images * -(-columns.inner // cls.widest)

    @classmethod
    def _tickets(cls, q: Query[P], columns: Columns) -> TicketRanges:
        return runs(cls._pieces(columns), cls.piece_seconds(q, columns), q.device)
