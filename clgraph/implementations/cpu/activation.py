"""Unary functions on CPU devices."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.cpu.convolution import TILE
from clgraph.implementations.cpu.elementwise import Blocked, InRows
from clgraph.ops.activation import Activation
from clgraph.selector.implementation import implements


@implements(Activation, name="activation.fsv16", serves=TILE)
class ActivationFsv16(Blocked):
    """A unary function of a blocked tensor."""


@implements(Activation, name="activation.rows", serves=replace(TILE, halos=False))
class ActivationRows(InRows):
    """A unary function of a plain tensor."""
