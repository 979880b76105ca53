"""Products and embeddings that read weights of few bits in place of floats: the work of compress_weights."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.core.mapped import release
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.matmul import MatMul
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context
from clgraph.passes.kept import check_kept
from clgraph.passes.quantization.few_bits import Compressed, group_of, records_of, rounded
from clgraph.passes.rewriting import substitute
from clgraph.passes.selection import unserved
from clgraph.selector.general import FLOATS
from clgraph.selector.query import Query

LEAST = 1 << 16
"""Weights from which on it matters that they are few bytes."""

_WHOLE = 8
"""Bits of tables and of the last product, whose errors nothing evens out."""


def compress(program: Program, context: Context, bits: int) -> tuple[int, list[str]]:
    """Round weights to *bits*; return of how many nodes, and lines about their errors and about the others."""
    check_kept(program, context)
    reasons = {n: _why_not(program, context, n, bits) for n in program if _reads_many(n)}
    able = [n for n, reason in reasons.items() if reason is None]
    products = [n for n in able if isinstance(n.primitive, MatMul)]
    lines, arrays = list[str](), [_weights(n).constant for n in able]
    for node in able:
        if node in products:
            made = _pack(program, context, node, _WHOLE if node is products[-1] else bits)
        else:
            made = _tabulate(program, context, node)
        lines.append(str(made))
    for array in arrays:
        assert array is not None
        release(array)
    lines += [f"{n.name} stays float: {reason}" for n, reason in reasons.items() if reason is not None]
    if convolutions := [n for n in program if isinstance(n.primitive, Convolution)]:
        lines.append(f"{len(convolutions)} convolutions stay float: they read their weights once for many places")
    return len(able), lines


def _weights(node: Node) -> Value:
    """Return the matrix of the product or Gather *node*."""
    return node.inputs[0 if isinstance(node.primitive, Gather) else 1]


def _reads_rows(node: Node) -> bool:
    """Whether *node* multiplies rows by a matrix on the right, or picks rows of one, and nothing is fused to it."""
    p = node.primitive
    if not isinstance(p, MatMul | Gather) or node.fused or _weights(node).layout.rank != 2:
        return False
    return p.axis == 0 if isinstance(p, Gather) else not p.transpose_a and node.inputs[0].layout.rank > 1


def _reads_many(node: Node) -> bool:
    """Whether that matrix is a large constant of floats."""
    if not _reads_rows(node):
        return False
    value = _weights(node)
    return value.constant is not None and value.layout.dtype in FLOATS and value.layout.count >= LEAST


def _why_not(program: Program, context: Context, node: Node, bits: int) -> str | None:
    """Say why the weights of *node* stay floats, or return ``None``."""
    value = _weights(node)
    if (pattern := context.kept_by(node)) is not None:
        return f"{pattern} is kept"
    if program.is_output(value):
        return f"{value.name} is an output of the graph"
    for reader, slot in value.uses:
        if not _reads_rows(reader) or _weights(reader) is not value or context.kept_by(reader) is not None:
            return f"{reader.name} reads {value.name} as input {slot}"
    assert value.constant is not None
    if not np.isfinite(value.constant).all():
        return f"{value.name} has numbers that are not finite"
    if isinstance(node.primitive, Gather):
        return None
    p = _product(node, context, bits)
    records = Layout(DType.U8, p.records.shape(p.columns, p.depth))
    inputs = (node.inputs[0].layout, records, *(v.layout for v in node.inputs[2:]))
    constant = frozenset(i for i, v in enumerate(node.inputs) if v.constant is not None)
    return unserved(context, node, Query(p, inputs, p.infer(inputs), context.device(node), node.arity, (), constant))


def _product(node: Node, context: Context, bits: int) -> BlockMatMul:
    """Return the product with packed weights that takes the place of *node*."""
    assert isinstance(node.primitive, MatMul)
    shape = _weights(node).layout.shape
    depth, columns = reversed(shape) if node.primitive.transpose_b else shape
    return BlockMatMul(columns, depth, bits, group_of(depth, context.weight_group), zeros=bits < _WHOLE)


def _pack(program: Program, context: Context, node: Node, bits: int) -> Compressed:
    """Put a product with records in the place of *node*."""
    weights, p = _weights(node), _product(node, context, bits)
    assert isinstance(node.primitive, MatMul)
    assert weights.constant is not None
    array, transpose = weights.constant, not node.primitive.transpose_b

    def made() -> tuple[Array, Array]:
        found = rounded(array, bits, p.block, symmetric=not p.zeros, transpose=transpose)
        return records_of(found, p.records), found.errors

    records, errors = context.packed.each_once(("compressed", p.records, transpose), [array], made)
    held = program.constant(f"{weights.name}/records", records)
    substitute(program, [node], p, [node.inputs[0], held, *node.inputs[2:]])
    return Compressed.of(node.name, bits, p.block, records.nbytes, array.nbytes, errors)


def _tabulate(program: Program, context: Context, node: Node) -> Compressed:
    """Let *node* pick rows of bytes, and multiply them by the scales of their rows."""
    table, indices = node.inputs
    assert table.constant is not None
    array, dtype = table.constant, table.layout.dtype

    def made() -> tuple[Array, Array, Array]:
        found = rounded(array, _WHOLE, array.shape[1], symmetric=True)
        return (found.integers ^ 128).view(np.int8), found.scales, found.errors

    rows, scales, errors = context.packed.each_once(("tabulated",), [array], made)
    picked = [
        program.insert(Gather(0), [program.constant(f"{table.name}/{what}", held), indices], sources=[node])
        for what, held in (("rows", rows), ("scales", scales))
    ]
    floats = program.insert(Reorder(DType.F32), [picked[0].output], sources=[node])
    scaled = program.insert(Eltwise("mul"), [floats.output, picked[1].output], sources=[node])
    last = scaled if dtype == DType.F32 else program.insert(Reorder(dtype), [scaled.output], sources=[node])
    program.rewire(node.output, last.output)
    name, result = node.name, node.output.name
    program.erase(node)
    last.name, last.output.name = name, result
    return Compressed.of(name, _WHOLE, array.shape[1], rows.nbytes + scales.nbytes, array.nbytes, errors)
