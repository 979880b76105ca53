"""Convolutions of halves on the matrix units of Intel's GPUs."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.matrix_units.convolution import HALVES, ConvolutionOnUnits
from clgraph.implementations.matrix_units.intel.units import DPAS
from clgraph.ops.convolution import Convolution
from clgraph.selector.implementation import implements


@implements(Convolution, name="convolution.intel_f16", serves=replace(HALVES, features=frozenset({DPAS.feature})))
class ConvolutionIntelF16(ConvolutionOnUnits):
    """DPAS in sub-groups that read blocks, without local memory; sums in float."""

    units = DPAS
