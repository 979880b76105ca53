"""Products with weights of 2, 4 or 8 bits in blocks that have a scale: ONNX Runtime's MatMulNBits.

The weights must be constants. They stay packed, as records; where the model names blocks row by row (``g_idx``) or has
zero points that are no integers, they are made floats when the model is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clgraph.core.mapped import release
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.block_records import Records, unpacked
from clgraph.ops.matmul import MatMul

_BITS = (2, 4, 8)


@onnx("MatMulNBits", since=(1,), domain=MICROSOFT)
def import_matmul_nbits_of(node: OnnxNode) -> Sequence[str]:
    """Return ``a w' + bias`` for w ``[N, K]`` in blocks along K."""
    rows, columns, block = (node.attribute(name, 0) for name in ("N", "K", "block_size"))
    bits = bits_of(node)
    if node.attribute("weight_prepacked", 0):
        raise node.unsupported("weight_prepacked=1, weights in the order of one GPU's kernels, is not supported")
    if min(rows, columns, block) < 1 or block * bits % 8:
        raise node.unsupported(f"N={rows}, K={columns} and block_size={block} are no blocks of whole bytes")
    blocks = -(-columns // block)
    packed, scales = constant_of(node, 1), constant_of(node, 2)
    if packed.dtype != np.uint8 or not np.issubdtype(scales.dtype, np.floating):
        raise node.unsupported(f"weights of {packed.dtype} and scales of {scales.dtype}; they are bytes and floats")
    if packed.size != rows * blocks * block * bits // 8 or scales.size != rows * blocks:
        raise node.unsupported(f"{packed.shape} and {scales.shape} are not weights and scales of {rows} x {columns}")
    bias = node.inputs[5:6]
    packed = packed.reshape(rows, -1)
    zeros = _zeros(node, bits, (rows, blocks))
    if not given(node, 4) and (zeros is None or zeros.dtype == np.uint8) and block * bits % 32 == 0:
        records = Records(bits, block, zeros is not None)
        made = node.literal(records.pack(packed, scales.reshape(rows, blocks), zeros))
        release(packed)
        rough = node.attribute("accuracy_level", 0) == 4
        product = BlockMatMul(rows, columns, bits, block, zeros is not None, rough)
        return node.emit(product, node.inputs[0], made, *bias)
    whole = unpacked(packed, bits)[:, :columns]
    centre = np.full((rows, blocks), 1 << (bits - 1)) if zeros is None else zeros
    group = constant_of(node, 4).astype(np.int64) if given(node, 4) else np.arange(columns) // block
    if group.shape != (columns,) or group.min() < 0 or group.max() >= blocks:
        raise node.unsupported(f"g_idx {group.shape} does not name one of {blocks} blocks for each of {columns} rows")
    centred = whole.astype(np.float32) - centre.astype(np.float32)[:, group]
    node.note(f"weights of {bits} bits become {scales.dtype} when the model is read, because {_why(node, bits, zeros)}")
    floats = centred * scales.reshape(rows, blocks)[:, group].astype(np.float32)
    weights = node.literal(floats.astype(scales.dtype))
    return node.emit(MatMul(transpose_b=True), node.inputs[0], weights, *bias)


def _zeros(node: OnnxNode, bits: int, shape: tuple[int, int]) -> Array | None:
    """Return the zero points ``[N, blocks]``, as bytes where each row was packed into some; ``None``: none given."""
    rows, blocks = shape
    if not given(node, 3):
        return None
    found = constant_of(node, 3)
    if found.dtype == np.uint8 and found.size == rows * -(-blocks * bits // 8):
        found = unpacked(found.reshape(rows, -1), bits)[:, :blocks]
    if found.size != rows * blocks:
        raise node.unsupported(f"zero points {found.shape} do not fit {blocks} blocks of {rows} rows")
    return found.reshape(shape)


def _why(node: OnnxNode, bits: int, zeros: Array | None) -> str:
    """Return what keeps weights from being records."""
    if given(node, 4):
        return "rows name their blocks (g_idx)"
    if zeros is not None and zeros.dtype != np.uint8:
        return f"zero points are {zeros.dtype}"
    return f"blocks of {node.attribute('block_size', 0)} weights of {bits} bits are no whole words of 32"


def bits_of(node: OnnxNode) -> int:
    """Return the attribute ``bits``; raises ``UnsupportedError`` for another number than there is."""
    bits: int = node.attribute("bits", 4)
    if bits not in _BITS:
        raise node.unsupported(f"bits is 2, 4 or 8, not {bits}")
    return bits


def given(node: OnnxNode, slot: int) -> bool:
    """Whether the input *slot* is there."""
    return slot < len(node.inputs) and bool(node.inputs[slot])


def constant_of(node: OnnxNode, slot: int) -> Array:
    """Return the data of input *slot*; raises ``UnsupportedError`` where it is computed."""
    found = node.constant(slot)
    if found is None:
        raise node.unsupported(f"input {slot}, a part of quantised weights, is not a constant of the model")
    return found
