"""Concatenation of plain tensors on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.moves import MOVES, Moved
from clgraph.ops.concat import Concat
from clgraph.selector.implementation import implements


@implements(Concat, name="concat.tiles", serves=MOVES)
class ConcatTiles(Moved):
    """Each input copied to its part of the result."""
