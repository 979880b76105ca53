"""Splits of plain tensors on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.moves import MOVES, Moved
from clgraph.ops.split import Split
from clgraph.selector.implementation import implements


@implements(Split, name="split.tiles", serves=MOVES)
class SplitTiles(Moved):
    """Each part copied to its result."""
