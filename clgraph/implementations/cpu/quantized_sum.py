"""Sums of values on steps on CPU devices, as sums of floats."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.elementwise import Blocked, InRows
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.selector.implementation import implements


@implements(QuantizedSum, name="quantized_sum.fsv16", serves=TILE)
class QuantizedSumFsv16(Blocked):
    """A sum of blocked tensors."""


@implements(QuantizedSum, name="quantized_sum.rows", serves=replace(TILE, halos=False))
class QuantizedSumRows(InRows):
    """A sum of plain tensors."""
