"""Tickets of drivers that run register blocks over the pixels and output channels of an image on CPU devices."""

from __future__ import annotations

from typing import Any

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.blocks import Block
from clgraph.implementations.cpu.cost import TicketRanges
from clgraph.selector.descriptor import Int, fields


@frozen
class BlockTickets:
    """Which chunks of pixels and groups of output channels a ticket takes.

    Attributes:
        channel_major: Neighbouring tickets are parts of one group, whose weights stay cached; else of the same pixels.
        lines: Lines of the next group's weights that are fetched with each chunk of a block; 0 where they are cached.
    """

    chunks: TicketRanges
    groups: TicketRanges
    channel_major: bool
    lines: int = 0

    @property
    def count(self) -> int:
        """Tickets of one image."""
        return self.chunks.count * self.groups.count


@fields
class BlockTicketsFields:
    """Vectors and chunks of a register block, and the tickets of an image."""

    nb: Int
    chunks: Int
    row_chunks: Int
    chunk_width: Int
    ticket_chunks: Int
    ticket_groups: Int
    spans: Int
    batch_tickets: Int
    channel_major: Int


def block_tickets_fields(block: Block, rows: int, tickets: BlockTickets) -> dict[str, Any]:
    """Return the fields of :class:`BlockTicketsFields` for images of so many *rows*."""
    return {
        "nb": block.nb,
        "chunks": block.chunks * rows,
        "row_chunks": block.chunks,
        "chunk_width": block.chunk_width,
        "ticket_chunks": tickets.chunks.each,
        "ticket_groups": tickets.groups.each,
        "spans": tickets.chunks.count,
        "batch_tickets": tickets.count,
        "channel_major": int(tickets.channel_major),
    }
