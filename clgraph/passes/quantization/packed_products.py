"""Products that read quantised weights in the bits that they have: the work of keep_weights_packed."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.block_records import Records, packed
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.rewriting import apart, read_outside, substitute

LEAST = 1 << 16
"""Weights from which on it matters that they are few bytes: smaller matrices of floats stay in a core's cache."""

WHOLE_BLOCK = 128
"""Weights that share a copy of their scale where the model has one for a whole column."""

_SIGNED = frozenset({DType.I2, DType.I4, DType.I8})
_TYPES = _SIGNED | {DType.U2, DType.U4, DType.U8}


def pack_products(program: Program, context: Context) -> tuple[int, list[str]]:
    """Let products read what is known of Dequantizes as records; return how many do, and why others do not."""
    done, notes = 0, list[str]()
    for node in tuple(program):
        data = node.inputs[0].constant if node in program and isinstance(node.primitive, Dequantize) else None
        if data is None or data.size < LEAST or node.inputs[0].layout.dtype not in _TYPES:
            continue
        if (why := _why_not(program, node)) is not None:
            notes.append(f"{node.name} becomes floats: {why}")
            continue
        for reader in sorted(node.output.readers, key=program.position):
            _pack(program, context, node, reader)
            done += 1
        program.erase(node)
    return done, notes


def _why_not(program: Program, node: Node) -> str | None:
    """Say why the products that read the Dequantize *node* cannot read its weights as they are, or return ``None``."""
    weights, scale, *zero = node.inputs
    readers = node.output.readers
    if any(v.constant is None for v in (scale, *zero)):
        return "scale and zero point are not known"
    if node.fused or len(weights.layout.shape) != 2 or node.output.layout.dtype != DType.F32:
        return "it is not a matrix of float32"
    if not readers or (why := read_outside(program, node.output, readers)) is not None:
        return "nothing reads it" if not readers else why
    for reader in readers:
        p = reader.primitive
        if not isinstance(p, MatMul) or reader.inputs[0] is node.output or reader.inputs[1] is not node.output:
            return f"{reader.name} is not a product with it on the right"
        if reader.fused or p.transpose_a or reader.inputs[0].layout.rank < 2 or apart([node, reader]) is not None:
            return f"{reader.name} is not a product of plain rows"
        if _dequantised(reader.inputs[0]):
            return f"{reader.name} multiplies integers"
        if _block(node, _summed(reader)) is None:
            return "its scales are not those of columns, or of blocks of 16 to 256 along the summed axis"
    return None


def _summed(product: Node) -> int:
    """Return the axis of the weights that *product* sums along."""
    return 1 if isinstance(product.primitive, MatMul) and product.primitive.transpose_b else 0


def _dequantised(value: Value) -> bool:
    """Whether *value* is the result of a Dequantize, perhaps in another shape or order."""
    while (node := value.producer) is not None and isinstance(node.primitive, Reshape | Transpose):
        value = node.inputs[0]
    return node is not None and isinstance(node.primitive, Dequantize)


def _block(node: Node, summed: int) -> int | None:
    """Return how many weights along axis *summed* share a copy of their scale; ``None`` where no number does."""
    p, scale = node.primitive, node.inputs[1].layout
    assert isinstance(p, Dequantize)
    if scale.count == 1 or (not p.block and p.axis % 2 != summed):
        return WHOLE_BLOCK
    fits = p.block and p.axis % 2 == summed and p.block in (16, 32, 64, 128, 256)
    return p.block if fits else None


def _pack(program: Program, context: Context, node: Node, product: Node) -> None:
    """Put a product with records in the place of *product*, which reads the result of the Dequantize *node*."""
    weights, summed, p = node.inputs[0], _summed(product), node.primitive
    block, bits = _block(node, summed), weights.layout.dtype.bits
    assert block is not None
    assert isinstance(p, Dequantize)
    shape, sources = weights.layout.shape, [v.constant for v in node.inputs if v.constant is not None]
    low = 1 << (bits - 1) if weights.layout.dtype in _SIGNED else 0
    zero = sources[2].astype(np.int16) if len(sources) > 2 else np.zeros((1, 1), np.int16)
    form = Records(bits, block, bool((zero + low != 1 << (bits - 1)).any()))

    def records() -> Array:
        integers = (_columns(sources[0], summed).astype(np.int16) + low).astype(np.uint8)
        blocks = -(-integers.shape[1] // block)
        scales, points = (_spread(x, p, summed, (len(integers), blocks)) for x in (sources[1], zero + low))
        padded = np.pad(integers, ((0, 0), (0, blocks * block - integers.shape[1])))
        return form.pack(packed(padded, bits), scales, points if form.zeros else None)

    made = context.packed.once(("records", form, p, summed), sources, records)
    primitive = BlockMatMul(shape[1 - summed], shape[summed], bits, block, form.zeros)
    held = program.constant(f"{weights.name}/records", made)
    substitute(program, [product], primitive, [product.inputs[0], held, *product.inputs[2:]])


def _columns(array: Array, summed: int) -> Array:
    """Return a matrix with its columns as rows."""
    return array if summed == 1 else np.ascontiguousarray(array.T)


def _spread(array: Array, p: Dequantize, summed: int, shape: tuple[int, int]) -> Array:
    """Return scales or zero points ``[columns, blocks]``."""
    if array.size == 1:
        return np.broadcast_to(array.reshape(1, 1), shape)
    return np.broadcast_to(_columns(array, summed) if p.block else array.reshape(-1, 1), shape)
