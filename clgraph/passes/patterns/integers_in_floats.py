"""Reductions and interpolations that make floats of integers, rules of ``decompose`` on CPUs: between conversions."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Node
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.reduce import Reduce, over_last_axes
from clgraph.ops.reorder import Reorder
from clgraph.passes.rewriting import supersede

RUNS = 4
"""Most axes of which at most two that stay and two that are reduced do not lie side by side."""
_ROOTS_AND_LOGARITHMS = ("l2", "log_sum", "log_sum_exp")


def reduce_in_doubles(program: Program, node: Node) -> bool:
    """Compute a root or a logarithm of a sum of integers in float64, as its reference does.

    Of exponentials over the last axes stays: ``reduce.exponentials`` does this a line at a time. Roots and logarithms
    of sums stay where ``reduce.elements`` converts a run at a time: of any axes up to *RUNS*, but of uint64.
    """
    p, x = node.primitive, node.inputs[0].layout
    if not isinstance(p, Reduce) or p.function not in _ROOTS_AND_LOGARITHMS:
        return False
    if over_last_axes(p, x.rank) if p.function == "log_sum_exp" else x.rank <= RUNS and x.dtype != DType.U64:
        return False
    return _between_conversions(program, node, p, DType.F64)


def resize_in_floats(program: Program, node: Node) -> bool:
    """Mix integers of 8 and 16 bits in float32, wider ones in float64; cubic weights go beyond what they mix."""
    # Imported where there is one: models of floats have the other rule, too.
    from clgraph.ops.resize import Resize

    p = node.primitive
    if not isinstance(p, Resize) or p.mode == "nearest" or not node.inputs[0].layout.count:
        return False
    dtype = node.output.layout.dtype
    limits = None if dtype.floating or dtype == DType.BOOL else np.iinfo(dtype.numpy)
    beyond = limits is not None and p.mode == "cubic" and dtype.itemsize < DType.F64.itemsize
    clip = Activation("clip", float(limits.min), float(limits.max)) if limits and beyond else None
    return _between_conversions(program, node, p, DType.F32 if dtype.itemsize < 4 else DType.F64, clip)


def _between_conversions(
    program: Program, node: Node, primitive: Primitive, wide: DType, last: Primitive | None = None
) -> bool:
    x = node.inputs[0]
    dtype = x.layout.dtype
    if dtype.floating or dtype == DType.BOOL or x.constant is not None or node.fused:
        return False

    made = x
    for step in (Reorder(wide), primitive, *([last] if last else []), Reorder(dtype)):
        made = program.insert(step, [made], sources=[node], before=node).output
    return supersede(program, node, made)
