"""Loop nests over plain tensors whose innermost axis is cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.cost import TicketRanges
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.selector.descriptor import Int, fields

DEPTH = 6
"""Axes of a nest."""


@fields
class NestFields:
    """Sizes of the axes behind the first; elements of a piece, pieces of a row, of the tensor and of a ticket."""

    count_1: Int
    count_2: Int
    count_3: Int
    count_4: Int
    width: Int
    piece: Int
    row_pieces: Int
    pieces: Int
    ticket_pieces: Int


@frozen
class Nest:
    """A loop nest of :data:`DEPTH` axes: rows of the innermost one, cut into pieces.

    Attributes:
        axes: Sizes and pitches; axes of size 1 stand in front.
        piece: The elements of a piece; the last one of a row may have fewer.
    """

    axes: tuple[Axis, ...]
    piece: int

    @staticmethod
    def of(axes: Sequence[Axis], piece: int) -> Nest:
        """Return the nest of *axes*, at most :data:`DEPTH` of which are left once they are merged."""
        found = merge(axes)
        return Nest((*[Axis(1, (0, 0))] * (DEPTH - len(found)), *found), piece)

    @property
    def width(self) -> Axis:
        """The innermost axis."""
        return self.axes[-1]

    @property
    def row_pieces(self) -> int:
        """Pieces of a row."""
        return -(-self.width.size // self.piece)

    @property
    def pieces(self) -> int:
        """Pieces of all rows."""
        return prod(a.size for a in self.axes[:-1]) * self.row_pieces

    def pitches(self, name: str, tensor: int) -> dict[str, int]:
        """Return the pitches of a tensor, by its number, as fields ``<name>_0`` and on."""
        return {f"{name}_{i}": axis.pitches[tensor] for i, axis in enumerate(self.axes)}

    def sizes(self, tickets: TicketRanges) -> dict[str, int]:
        """Return the values of :class:`NestFields`."""
        return {
            **{f"count_{i}": self.axes[i].size for i in range(1, DEPTH - 1)},
            "width": self.width.size,
            "piece": self.piece,
            "row_pieces": self.row_pieces,
            "pieces": self.pieces,
            "ticket_pieces": tickets.each,
        }
