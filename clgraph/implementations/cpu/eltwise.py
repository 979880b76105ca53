"""Binary functions on CPU devices."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.cpu.convolution import TILE
from clgraph.implementations.cpu.elementwise import Blocked, InRows
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.implementation import implements


@implements(Eltwise, name="eltwise.fsv16", serves=TILE)
class EltwiseFsv16(Blocked):
    """A binary function of blocked tensors."""


@implements(Eltwise, name="eltwise.rows", serves=replace(TILE, halos=False))
class EltwiseRows(InRows):
    """A binary function of plain tensors."""
