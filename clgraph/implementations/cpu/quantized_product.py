"""Products of values on steps on CPU devices, as products of floats."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.elementwise import Blocked, InRows
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.selector.implementation import implements


@implements(QuantizedProduct, name="quantized_product.fsv16", serves=TILE)
class QuantizedProductFsv16(Blocked):
    """A product of blocked tensors."""


@implements(QuantizedProduct, name="quantized_product.rows", serves=replace(TILE, halos=False))
class QuantizedProductRows(InRows):
    """A product of plain tensors."""
