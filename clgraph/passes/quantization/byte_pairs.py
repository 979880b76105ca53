"""Sums and products of quantised values whose bytes are there as functions of bytes; a step of prepare_quantization."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.byte_lookup import BYTES
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.on_steps import OnSteps
from clgraph.ops.quantized_pair import QuantizedPair
from clgraph.passes.quantization.dynamic_quantization import drop
from clgraph.passes.rewriting import apart, read_outside, substitute


def pair_bytes(program: Program, node: Node) -> bool:
    """Make a ``quantized_pair`` of *node*, a Quantize of a sum or product of what are bytes; say whether it did."""
    made, dtype = node.inputs[0].producer, node.output.layout.dtype
    order = made.primitive if made is not None else None
    if made is None or not isinstance(order, OnSteps) or dtype not in BYTES or node.fused or made.fused:
        return False
    if not _steps(node.inputs[1:], order, 2) or read_outside(program, made.output, [node]) is not None:
        return False
    sources = [_bytes(program, made, slot, order, dtype) for slot in range(2)]
    widening = [v.producer for v in made.inputs if v.producer is not None]
    if any(v is None for v in sources) or apart([made, node, *widening]) is not None:
        return False
    scales, zeros = order.scales, order.zeros
    if _turns(*(v.layout.shape for v in made.inputs)):
        sources, scales, zeros = sources[::-1], (scales[1], scales[0], scales[2]), (zeros[1], zeros[0], zeros[2])
    inputs = [
        program.constant(f"{node.name}/bytes", v) if isinstance(v, np.ndarray) else v for v in sources if v is not None
    ]
    substitute(program, [made, node], QuantizedPair(order.function, scales, zeros), inputs, node)
    for other in dict.fromkeys(widening):
        if other in program:
            drop(program, other)
    return True


def _turns(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether ONNX Runtime exchanges a and b: where rows of the result have one element of a and several of b."""
    for p, q in zip(reversed(a), reversed(b), strict=False):
        if p != q:
            return p == 1
    return prod(a) == 1 < prod(b)


def _bytes(program: Program, node: Node, slot: int, order: OnSteps, dtype: DType) -> Value | np.ndarray | None:
    """Return the bytes of input *slot* of *node*, an array for a constant; ``None`` where they are not there."""
    value = node.inputs[slot]
    if value.constant is not None:
        integers = order.integers(slot, np.asarray(value.constant))
        return integers.astype(dtype.numpy)
    made = value.producer
    widens = made is not None and isinstance(made.primitive, Dequantize) and not made.fused
    if made is None or not widens or made.inputs[0].layout.dtype != dtype or not _steps(made.inputs[1:], order, slot):
        return None
    return made.inputs[0]


def _steps(parameters: Sequence[Value], order: OnSteps, slot: int) -> bool:
    """Whether scale and zero point are those of *slot* of *order*."""
    numbers = [v.constant.reshape(-1) for v in parameters if v.constant is not None and v.layout.count == 1]
    found = (*[float(n[0]) for n in numbers], 0.0)[:2]
    wanted = float(np.float32(order.scales[slot])), float(order.zeros[slot])
    return len(numbers) == len(parameters) and found == wanted
