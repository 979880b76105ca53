"""Convolutions of halves on the matrix units of AMD's GPUs."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.matrix_units.amd.units import MATRIX
from clgraph.implementations.matrix_units.convolution import HALVES, ConvolutionOnUnits
from clgraph.ops.convolution import Convolution
from clgraph.selector.implementation import implements


@implements(Convolution, name="convolution.amd_f16", serves=replace(HALVES, features=frozenset({MATRIX.feature})))
class ConvolutionAmdF16(ConvolutionOnUnits):
    """WMMA or MFMA on tiles in local memory; sums in float."""

    units = MATRIX
