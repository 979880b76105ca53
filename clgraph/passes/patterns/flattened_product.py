"""Matrix products of flattened tensors, a rule of ``decompose``: ONNX Runtime's optimiser writes MatMul like that."""

from __future__ import annotations

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.passes.rewriting import apart


def spread_product(program: Program, node: Node) -> bool:
    """Multiply x ``[..., K]`` itself where it is flattened for a product with one matrix, and unflattened behind it.

    Products of one tensor are then siblings, and what stands behind the reshape can be fused.
    """
    ends = _ends(program, node)
    if ends is None:
        return False
    flat, back = ends
    x, whole = flat.inputs[0], (*_rows(flat, back), flat.output.layout.shape[-1])
    if x.layout.shape != whole:
        x = program.insert(Reshape(whole, zero_is_zero=0 in whole), [x], sources=[flat], before=node).output
    made = program.insert(node.primitive, [x, *node.inputs[1:]], sources=[node], before=node)
    name, result = node.name, node.output.name
    if made.output.layout.shape == back.output.layout.shape:
        result = back.output.name
        program.rewire(back.output, made.output)
        program.erase(back)
    else:
        program.rewire(node.output, made.output)
    program.erase(node)
    if not flat.output.uses:
        program.erase(flat)
    made.name, made.output.name = name, result
    return True


def _ends(program: Program, node: Node) -> tuple[Node, Node] | None:
    """Return the reshapes in front of and behind a product of a flattened tensor, ``None`` for another node."""
    if not isinstance(node.primitive, MatMul) or node.primitive.transpose_a or node.fused:
        return None
    flat, back = node.inputs[0].producer, next(iter(node.output.readers), None)
    if flat is None or back is None or not node.output.has_one_use or program.is_output(node.output):
        return None
    if not isinstance(flat.primitive, Reshape) or not isinstance(back.primitive, Reshape):
        return None
    one_matrix = flat.output.layout.rank == node.inputs[1].layout.rank == 2
    same_for_all = all(v.layout.rank < 2 or v.layout.shape[0] == 1 for v in node.inputs[2:])
    if not one_matrix or not same_for_all or len(_rows(flat, back)) < 2:
        return None
    return (flat, back) if apart([flat, node, back]) is None else None


def _rows(flat: Node, back: Node) -> tuple[int, ...]:
    """Return the axes that the rows of the product are, in front of it or only behind; empty where they are not."""
    x, rows = flat.inputs[0].layout.shape, flat.output.layout.shape
    y, result = back.output.layout.shape, back.inputs[0].layout.shape
    if x[-1:] == rows[-1:] and y[: len(x) - 1] == x[:-1]:
        return x[:-1]
    return y[:-1] if y[-1:] == result[-1:] else ()
