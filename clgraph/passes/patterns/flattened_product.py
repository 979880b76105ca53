"""Matrix products of flattened tensors, a rule of ``decompose``: ONNX Runtime's optimiser writes MatMul like that."""

from __future__ import annotations

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
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
    flat, between, back = ends
    x, whole = flat.inputs[0], (*_rows(flat, back), flat.output.layout.shape[-1])
    if x.layout.shape != whole:
        x = program.insert(Reshape(whole, zero_is_zero=0 in whole), [x], sources=[flat], before=node).output
    made = end = program.insert(node.primitive, [x, *node.inputs[1:]], sources=[node], before=node)
    if between is not None:
        end = program.insert(between.primitive, [made.output], sources=[between], before=between)
    last = between or node
    names = [(made, node.name, node.output.name), (end, last.name, last.output.name)]
    if end.output.layout.shape == back.output.layout.shape:
        names.append((end, last.name, back.output.name))
        program.rewire(back.output, end.output)
        program.erase(back)
    else:
        program.rewire(last.output, end.output)
    for old in (between, node):
        if old is not None:
            program.erase(old)
    if not flat.output.uses:
        program.erase(flat)
    for new, name, result in names:
        new.name, new.output.name = name, result
    return True


def _ends(program: Program, node: Node) -> tuple[Node, Node | None, Node] | None:
    """Return the reshapes in front of and behind a product of a flattened tensor, ``None`` for another node.

    Between them is what an activation may make of the product before it is unflattened: a rounding to 8 bits, say.
    """
    if not isinstance(node.primitive, MatMul) or node.primitive.transpose_a or node.fused:
        return None
    flat, back = node.inputs[0].producer, _reader(program, node)
    between = back if back is not None and isinstance(back.primitive, Activation) and not back.fused else None
    if between is not None:
        back = _reader(program, between)
    if (
        flat is None
        or back is None
        or not isinstance(flat.primitive, Reshape)
        or not isinstance(back.primitive, Reshape)
    ):
        return None
    one_matrix = flat.output.layout.rank == node.inputs[1].layout.rank == 2
    same_for_all = all(v.layout.rank < 2 or v.layout.shape[0] == 1 for v in node.inputs[2:])
    if not one_matrix or not same_for_all or len(_rows(flat, back)) < 2:
        return None
    taken = [flat, node, back] if between is None else [flat, node, between, back]
    return (flat, between, back) if apart(taken) is None else None


def _reader(program: Program, node: Node) -> Node | None:
    """Return the only node that reads what *node* makes."""
    alone = node.output.has_one_use and not program.is_output(node.output)
    return next(iter(node.output.readers), None) if alone else None


def _rows(flat: Node, back: Node) -> tuple[int, ...]:
    """Return the axes that the rows of the product are, in front of it or only behind; empty where they are not."""
    x, rows = flat.inputs[0].layout.shape, flat.output.layout.shape
    y, result = back.output.layout.shape, back.inputs[0].layout.shape
    if x[-1:] == rows[-1:] and y[: len(x) - 1] == x[:-1]:
        return x[:-1]
    return y[:-1] if y[-1:] == result[-1:] else ()
