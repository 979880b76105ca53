"""Blocked tensors in pieces: runs of pixels of a row that a worker keeps in its cache, and how a plane's are cut."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.cost import TicketRanges, split, ticket_seconds
from clgraph.implementations.cpu.geometry import Planes
from clgraph.selector.descriptor import PostStep
from clgraph.selector.query import DeviceInfo


@frozen
class Pieces:
    """A plane of the result as rows of pieces; one long row where nothing tells the rows apart.

    Attributes:
        height, width: Rows, and pixels of one.
        row_pieces: Pieces of a row; the last may be shorter.
        strips: The pieces of a plane cut into tickets.
    """

    height: int
    width: int
    row_pieces: int
    strips: TicketRanges


def pieces(
    x: Planes,
    y: Planes,
    post: Sequence[PostStep],
    piece: int,
    pixel_seconds: float,
    device: DeviceInfo,
    blocks: int | None = None,
) -> Pieces:
    """Return the pieces of *piece* pixels of a step that makes *y* of *x*, pixel by pixel, and applies *post*.

    Args:
        blocks: The blocks of channels of an image that it makes; by default those of *y*.
    """
    rows_alike = all(row == pixel * y.width for _, _, row, pixel, _ in (step.pitches for step in post))
    flat = x.one_row and y.one_row and not any(y.halo) and rows_alike
    height, width = (1, y.height * y.width) if flat else (y.height, y.width)
    row_pieces, one = -(-width // piece), min(width, piece) * pixel_seconds
    work = one * row_pieces * height * y.batch * (y.blocks if blocks is None else blocks)
    strips = split(height * row_pieces, one, ticket_seconds(work, device), 1)
    return Pieces(height, width, row_pieces, strips)
