"""Matrix products of halves on the matrix units of Intel's GPUs."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.matrix_units.convolution import HALVES
from clgraph.implementations.matrix_units.intel.units import DPAS
from clgraph.implementations.matrix_units.matmul import MatMulOnUnits
from clgraph.ops.matmul import MatMul
from clgraph.selector.implementation import implements


@implements(MatMul, name="matmul.intel_f16", serves=replace(HALVES, features=frozenset({DPAS.feature})))
class MatMulIntelF16(MatMulOnUnits):
    """DPAS in sub-groups that read blocks, without local memory; sums in float."""

    units = DPAS
