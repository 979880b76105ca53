"""Matrix products of halves on the matrix units of AMD's GPUs."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.matrix_units.amd.units import MATRIX
from clgraph.implementations.matrix_units.convolution import HALVES
from clgraph.implementations.matrix_units.matmul import MatMulOnUnits
from clgraph.ops.matmul import MatMul
from clgraph.selector.implementation import implements


@implements(MatMul, name="matmul.amd_f16", serves=replace(HALVES, features=frozenset({MATRIX.feature})))
class MatMulAmdF16(MatMulOnUnits):
    """WMMA or MFMA on tiles in local memory; sums in float."""

    units = MATRIX
