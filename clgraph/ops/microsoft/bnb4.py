"""Products with weights of 4 bits as bitsandbytes has them: ONNX Runtime's MatMulBnb4.

The weights must be constants, and are made floats when the model is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.block_quantised import constant_of

_FP4 = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
"""By exponent and mantissa; the fourth bit is the sign."""

_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725),
    *(0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""Quantiles of the normal distribution (Dettmers et al., QLoRA, 2023, appendix E)."""

_TABLES = {0: (*_FP4, *(-v for v in _FP4)), 1: _NF4}
"""By ``quant_type``."""


@onnx("MatMulBnb4", since=(1,), domain=MICROSOFT)
def import_matmul_bnb4(node: OnnxNode) -> Sequence[str]:
    """Return ``a w'`` for w ``[N, K]``, ``a w`` where it is not to be transposed.

    Of two weights in a byte the first has the upper bits; blocks of ``block_size`` weights that follow each other have
    a largest number.
    """
    rows, columns, block = (node.attribute(name, 0) for name in ("N", "K", "block_size"))
    kind = node.attribute("quant_type", 0)
    packed, largest = constant_of(node, 1), constant_of(node, 2)
    count = rows * columns
    if min(rows, columns, block) < 1 or packed.size != -(-count // 2) or largest.size != -(-count // block):
        raise node.unsupported(f"{packed.shape} and {largest.shape} are not {rows} x {columns} in blocks of {block}")
    if kind not in _TABLES or packed.dtype != np.uint8:
        raise node.unsupported(f"quant_type {kind} and weights of {packed.dtype}: there are 0 (FP4) and 1 (NF4), bytes")
    codes = np.stack([packed.ravel() >> 4, packed.ravel() & 15], 1).ravel()[:count]
    scales = largest.ravel().astype(np.float32).repeat(block)[:count]
    weights = np.array(_TABLES[kind], np.float32)[codes] * scales
    node.note(f"weights of 4 bits become {largest.dtype} when the model is read, because no kernel has their table")
    made = node.literal(weights.reshape(rows, columns).astype(largest.dtype))
    return node.emit(MatMul(transpose_b=bool(node.attribute("transB", 1))), node.inputs[0], made)
