"""Means of dequantised bytes by sums of the bytes; a step of prepare_quantization."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.byte_lookup import BYTES
from clgraph.ops.byte_mean import MOST, ByteMean
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.reduce import Reduce
from clgraph.passes.rewriting import apart, read_outside, substitute


def sum_bytes(program: Program, node: Node) -> bool:
    """Make the mean *node* of a Dequantize of 8 bits, of known steps, a mean of the bytes; say whether it did."""
    p, made = node.primitive, node.inputs[0].producer if node.inputs else None
    if not isinstance(p, Reduce) or p.function != "mean" or node.fused or node.output.layout.dtype != DType.F32:
        return False
    if made is None or not isinstance(made.primitive, Dequantize) or made.fused:
        return False
    x, *numbers = made.inputs
    known = [v.constant for v in numbers if v.constant is not None and v.layout.count == 1]
    if len(known) < len(numbers) or x.layout.dtype not in BYTES:
        return False
    axes = sorted(p.reduced(x.layout.rank))
    if not axes or axes != [*range(axes[0], axes[-1] + 1)]:
        return False
    scale, zero = float(known[0].reshape(())), int(known[1].reshape(())) if known[1:] else 0
    mean = ByteMean(axes[0], axes[-1] + 1, scale, zero, p.keepdims)
    if not 0 < mean.count(x.layout.shape) <= MOST or apart([made, node]) is not None:
        return False
    if read_outside(program, made.output, [node]) is not None:
        return False
    substitute(program, [made, node], mean, [x], node)
    return True
