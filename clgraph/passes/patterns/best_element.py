"""The best element along an axis, a rule of ``decompose`` on CPUs: where it is, and what is there."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.graph.node import Node
from clgraph.graph.program import Program


def spread_best(program: Program, node: Node) -> bool:
    """Compute the single best element as the index of an extremum, and the element there where it is read.

    An index of the smallest is that of a NaN, which is no smallest element. No tile finds extrema of unsigned
    integers of 64 bits.
    """
    from clgraph.ops.arg import ArgExtremum
    from clgraph.ops.gather_elements import GatherElements
    from clgraph.ops.top_k import TopK

    p, x = node.primitive, node.inputs[0]
    if not isinstance(p, TopK) or p.k != 1 or node.fused or x.constant is not None:
        return False
    dtype = x.layout.dtype
    if dtype in (DType.U64, DType.BOOL) or (dtype.floating and not p.largest):
        return False
    best, place = node.outputs
    found = program.insert(
        ArgExtremum(not p.largest, p.axis), [x], sources=[node], name=f"{node.name}/place", before=node
    ).output
    made = [(place, found)]
    if best.uses or program.is_output(best):
        element = program.insert(
            GatherElements(p.axis), [x, found], sources=[node], name=f"{node.name}/best", before=node
        ).output
        made.append((best, element))
    names = [(value, old.name) for old, value in made]
    for old, value in made:
        program.rewire(old, value)
    program.erase(node)
    for value, name in names:
        value.name = name
    return True
