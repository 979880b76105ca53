"""Logarithms of sums, of exponentials too, rules of ``decompose`` on CPUs: their steps run over vectors, fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clgraph.core.dtype import DType, largest
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from clgraph.passes.rewriting import supersede


def spread_log_sum_exp(program: Program, node: Node) -> bool:
    """Compute ``log(sum(exp(x)))`` as ``m + log(sum(exp(x - m)))``, m the maximum, or the number nearest to it.

    An infinite maximum would make NaN of the difference from itself.
    """
    p, x = node.primitive, node.inputs[0] if node.inputs else None
    if not isinstance(p, Reduce) or p.function != "log_sum_exp" or node.fused or x is None:
        return False
    axes, dtype = p.reduced(x.layout.rank), x.layout.dtype
    if not axes or x.constant is not None or dtype not in (DType.F32, DType.F64):
        return False

    def add(name: str, primitive: Primitive, inputs: Sequence[Value]) -> Value:
        return program.insert(primitive, inputs, sources=[node], name=f"{node.name}/{name}", before=node).output

    most = largest(dtype.numpy)
    top = add("clip", Activation("clip", -most, most), [add("max", Reduce("max", axes), [x])])
    terms = add("exp", Activation("exp"), [add("sub", Eltwise("sub"), [x, top])])
    logarithm = add("log", Activation("log"), [add("sum", Reduce("sum", axes), [terms])])
    made = add("add", Eltwise("add"), [logarithm, top])
    if not p.keepdims:
        # Of one element: without a shape, which would hold sizes.
        made = add("squeeze", Reduce("sum", axes, keepdims=False), [made])
    name = node.output.name
    program.rewire(node.output, made)
    program.erase(node)
    made.name = name
    return True


def spread_log_sum(program: Program, node: Node) -> bool:
    """Compute ``log(sum(x))`` as a sum and its logarithm, of types that round a sum no more than the reduction does."""
    p, x = node.primitive, node.inputs[0] if node.inputs else None
    if not isinstance(p, Reduce) or p.function != "log_sum" or node.fused or x is None or x.constant is not None:
        return False
    if not p.reduced(x.layout.rank) or x.layout.dtype not in (DType.F32, DType.F64):
        return False
    total = program.insert(replace(p, function="sum"), [x], sources=[node], name=f"{node.name}/sum", before=node)
    logarithm = program.insert(Activation("log"), [total.output], sources=[node], before=node)
    return supersede(program, node, logarithm.output)
