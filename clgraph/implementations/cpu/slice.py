"""Slices of plain tensors on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.moves import MOVES, Moved
from clgraph.ops.slice import Slice
from clgraph.selector.implementation import implements


@implements(Slice, name="slice.tiles", serves=MOVES)
class SliceTiles(Moved):
    """The rows of the slice copied, by vectors where the last axis has no step."""
