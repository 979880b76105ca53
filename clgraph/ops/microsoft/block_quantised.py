"""Weights of 2, 4 or 8 bits in blocks that have a scale: ONNX Runtime's MatMulNBits and GatherBlockQuantized.

The weights must be constants. Those of products stay packed, as records; where the model names blocks row by row
(``g_idx``) or has zero points that are no integers, and in tables that are gathered from, they are made floats when the
model is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.mapped import release
from clgraph.graph.attributes import positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, primitive
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.block_records import Records, unpacked
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.where import Where

_BITS = (2, 4, 8)


@onnx("MatMulNBits", since=(1,), domain=MICROSOFT)
def import_matmul_n_bits(node: OnnxNode) -> Sequence[str]:
    """Return ``a w' + bias`` for w ``[N, K]`` in blocks along K."""
    rows, columns, block = (node.attribute(name, 0) for name in ("N", "K", "block_size"))
    bits = _bits(node)
    if node.attribute("weight_prepacked", 0):
        raise node.unsupported("weight_prepacked=1, weights in the order of one GPU's kernels, is not there")
    if min(rows, columns, block) < 1 or block * bits % 8:
        raise node.unsupported(f"N={rows}, K={columns} and block_size={block} are no blocks of whole bytes")
    blocks = -(-columns // block)
    packed, scales = _constant(node, 1), _constant(node, 2)
    if packed.dtype != np.uint8 or not np.issubdtype(scales.dtype, np.floating):
        raise node.unsupported(f"weights of {packed.dtype} and scales of {scales.dtype}; they are bytes and floats")
    if packed.size != rows * blocks * block * bits // 8 or scales.size != rows * blocks:
        raise node.unsupported(f"{packed.shape} and {scales.shape} are not weights and scales of {rows} x {columns}")
    bias = node.inputs[5:6]
    packed = packed.reshape(rows, -1)
    zeros = _zeros(node, bits, (rows, blocks))
    if not _given(node, 4) and (zeros is None or zeros.dtype == np.uint8) and block * bits % 32 == 0:
        records = Records(bits, block, zeros is not None)
        made = node.literal(records.pack(packed, scales.reshape(rows, blocks), zeros))
        release(packed)
        rough = node.attribute("accuracy_level", 0) == 4
        product = BlockMatMul(rows, columns, bits, block, zeros is not None, rough)
        return node.emit(product, node.inputs[0], made, *bias)
    whole = unpacked(packed, bits)[:, :columns]
    centre = np.full((rows, blocks), 1 << (bits - 1)) if zeros is None else zeros
    group = _constant(node, 4).astype(np.int64) if _given(node, 4) else np.arange(columns) // block
    if group.shape != (columns,) or group.min() < 0 or group.max() >= blocks:
        raise node.unsupported(f"g_idx {group.shape} does not name one of {blocks} blocks for each of {columns} rows")
    centred = whole.astype(np.float32) - centre.astype(np.float32)[:, group]
    floats = centred * scales.reshape(rows, blocks)[:, group].astype(np.float32)
    weights = node.literal(floats.astype(scales.dtype))
    return node.emit(MatMul(transpose_b=True), node.inputs[0], weights, *bias)


def _zeros(node: OnnxNode, bits: int, shape: tuple[int, int]) -> Array | None:
    """Return the zero points ``[N, blocks]``, as bytes where each row was packed into some; ``None``: none given."""
    rows, blocks = shape
    if not _given(node, 3):
        return None
    found = _constant(node, 3)
    if found.dtype == np.uint8 and found.size == rows * -(-blocks * bits // 8):
        found = unpacked(found.reshape(rows, -1), bits)[:, :blocks]
    if found.size != rows * blocks:
        raise node.unsupported(f"zero points {found.shape} do not fit {blocks} blocks of {rows} rows")
    return found.reshape(shape)


@primitive
@frozen
class GatherInside(Composite):
    """Gather along *axis*, with zeros for indices that are outside of it."""

    axis: int

    kind: ClassVar[str] = "gather_inside"

    def compose(self, c: Composition) -> Sequence[str]:
        table, indices = c.inputs
        axis, shape, picked = positive_axis(self.axis, c.layout(table).rank), c.layout(table).shape, c.layout(indices)
        size, first = (c.constant(np.array(n, picked.dtype.numpy)) for n in (shape[axis], -shape[axis]))
        inside = c.add(
            Eltwise("and"), c.add(Eltwise("less"), indices, size), c.add(Eltwise("greater_equal"), indices, first)
        )
        wide = c.add(Reshape((*picked.shape, *(1,) * (len(shape) - axis - 1)), zero_is_zero=True), inside)
        y = c.add(Gather(axis), table, indices)
        return (c.add(Where(), wide, y, c.constant(np.zeros((), c.layout(table).dtype.numpy))),)


@onnx("GatherBlockQuantized", since=(1,), domain=MICROSOFT)
def import_gather_block_quantized(node: OnnxNode) -> Sequence[str]:
    data, scales = _constant(node, 0), _constant(node, 2)
    if not data.ndim:
        raise node.unsupported("a table of no axes has no blocks")
    zero = 0
    if data.dtype == np.uint8:
        bits = _bits(node)
        data, zero = unpacked(data, bits), 1 << (bits - 1)
    axis = positive_axis(node.attribute("quantize_axis", 1), data.ndim)
    block, size = node.attribute("block_size", 128), data.shape[axis]
    wanted = tuple(-(-size // block) if a == axis else d for a, d in enumerate(data.shape)) if block > 0 else ()
    if scales.shape != wanted:
        raise node.unsupported(f"scales {scales.shape} do not fit {data.shape} in blocks of {block} along axis {axis}")
    zeros = np.full(wanted, zero)
    if _given(node, 3):
        zeros = _constant(node, 3)
        zeros = unpacked(zeros, _bits(node))[..., : wanted[-1]] if zeros.dtype == np.uint8 and zeros.ndim else zeros
        if zeros.shape != wanted:
            raise node.unsupported(f"zero points {zeros.shape} do not fit scales {wanted}")
    spread = [x.astype(np.float32).repeat(block, axis).take(np.arange(size), axis) for x in (zeros, scales)]
    floats = (data.astype(np.float32) - spread[0]) * spread[1]
    table = node.literal(floats.astype(scales.dtype))
    return node.emit(GatherInside(node.attribute("gather_axis", 0)), table, node.inputs[1])


def _bits(node: OnnxNode) -> int:
    bits: int = node.attribute("bits", 4)
    if bits not in _BITS:
        raise node.unsupported(f"bits is 2, 4 or 8, not {bits}")
    return bits


def _given(node: OnnxNode, slot: int) -> bool:
    return slot < len(node.inputs) and bool(node.inputs[slot])


def _constant(node: OnnxNode, slot: int) -> Array:
    found = node.constant(slot)
    if found is None:
        raise node.unsupported(f"input {slot}, a part of quantised weights, is not a constant of the model")
    return found
