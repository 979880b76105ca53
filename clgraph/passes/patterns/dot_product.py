"""Matrix products of one row and one column, a rule of ``decompose`` on CPUs: vectors hold neighbours of a sum."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reduce import Reduce
from clgraph.ops.transpose import Transpose
from clgraph.passes.rewriting import Inserter, supersede

LEAST = 1024
"""Elements of a row from which it is no query that meets one key: an attention's products are taken together."""


def spread_dots(program: Program, node: Node) -> bool:
    """Compute a product of one row and one column as the sum of what multiplies their elements."""
    p = node.primitive
    if not isinstance(p, MatMul) or node.fused or node.output.layout.dtype not in (DType.F32, DType.F64):
        return False
    a, b, *bias = node.inputs
    if a.layout.rank < 2 or b.layout.rank < 2:
        return False
    _, rows, length, columns = p.sizes(a.layout.shape, b.layout.shape)
    if rows != 1 or columns != 1 or length < LEAST:
        return False
    add = Inserter(program, node)

    def lying(x: Value, stands: bool) -> Value:
        rank = x.layout.rank
        return add(Transpose((*range(rank - 2), rank - 1, rank - 2)), x) if stands else x

    y = add(Eltwise("mul"), lying(a, p.transpose_a), lying(b, not p.transpose_b))
    y = add(Reduce("sum", (y.layout.rank - 1,)), y)
    return supersede(program, node, add(Eltwise("add"), y, *bias) if bias else y)
