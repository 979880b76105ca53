"""Products of plain matrices of integers on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.matmul_doubles import MatMulDoubles, MatMulDoublesDesc
from clgraph.implementations.cpu.strided_product import nested_product
from clgraph.ops.matmul import MatMul
from clgraph.selector.descriptor import Int, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_WRAPPING = frozenset({DType.I32, DType.U32, DType.I64, DType.U64})
"""Types whose products and sums are those of unsigned numbers of as many bits."""


@descriptor("matmul_integers", library="rare", any_alignment=True)
class MatMulIntegersDesc(MatMulDoublesDesc):
    """Fields as in ``matmul_integers.cl``."""

    itemsize: Int


@implements(MatMul, name="matmul.integers", serves=Serves(dtypes=_WRAPPING, kinds=frozenset({"cpu"})))
class MatMulIntegers(MatMulDoubles):
    """Row-major matrices in register blocks of 6 rows by 16 columns."""

    @classmethod
    def limits(cls, q: Query[MatMul]) -> str | None:
        if refused := super().limits(q):
            return refused
        p = nested_product(q)
        if p.columns == 1 or p.rows.size * p.columns < LANES:
            return "leaves one column, and fewer results than a vector has, to a sum for each"
        return None

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        tickets, scratch, fields = cls.fields(q)
        desc = MatMulIntegersDesc(**fields, itemsize=q.outputs[0].dtype.itemsize)
        return Plan((Tile("matmul_integers", desc, tickets, scratch=scratch),))
