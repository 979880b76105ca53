"""What tells that a program is about quantised values."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Node
from clgraph.ops.activation import Activation

BYTES = (DType.U8, DType.I8)
ROUNDINGS = {1: "fake_quantize", 2: "fake_quantize_wide"}
"""The activations that leave steps of integers, by bytes of these."""


def has_steps(node: Node) -> bool:
    """Whether *node* reads or makes bytes, makes integers or floats of integers, or rounds floats to steps of them."""
    p = node.primitive
    if p.kind in ("quantize", "dequantize"):
        return True
    if isinstance(p, Activation) and p.function in ROUNDINGS.values():
        return True
    return any(v.layout.dtype in BYTES for v in (*node.inputs, *node.outputs))


def known_numbers(node: Node) -> tuple[float, int] | None:
    """Return scale and zero point of *node*, a Quantize or Dequantize, where each is one known number.

    The scale is positive and finite.
    """
    scale, *zero = (v.constant for v in node.inputs[1:])
    if scale is None or scale.size != 1 or any(z is None for z in zero):
        return None
    number = float(scale.reshape(-1)[0])
    return (number, int(zero[0].reshape(-1)[0]) if zero and zero[0] is not None else 0) if 0 < number < np.inf else None
