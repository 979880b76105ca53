"""Dynamically quantised products as floats that hold integers; a step of prepare_quantization."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.quantize import Quantize
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose
from clgraph.passes.rewriting import apart, read_outside

_BYTES = (DType.U8, DType.I8)
_NEVER_NEGATIVE = frozenset({"relu", "sigmoid", "hard_sigmoid", "abs", "exp", "square"})
"""Functions without negative results."""


def keep_floats(program: Program, node: Node) -> bool:
    """Let a Reorder to float32 of exact sums read them as the floats that they were; say whether it did.

    Sums of floats that are integers below 2^24 stay what they are; of two of them one sum is rounded as its int32 is.
    """
    if not _turns(node, DType.I32, DType.F32):
        return False
    whole = node.inputs[0]
    made = whole.producer
    if made is None or node.fused:
        return False
    parts = [whole]
    if isinstance(made.primitive, Eltwise) and made.primitive.function == "add" and not made.fused:
        parts = list(made.inputs)
    floats = [_exact(v) for v in parts]
    if any(v is None for v in floats) or apart([made, node]) is not None:
        return False
    found = [v for v in floats if v is not None]
    if len(found) == 2:
        found = [program.insert(Eltwise("add"), found, sources=[made, node], before=node).output]
    if program.is_output(node.output) and found[0].producer is None:
        return False
    program.rewire(node.output, found[0])
    drop(program, node)
    return True


def without_minimum(program: Program, node: Node) -> bool:
    """Let the lesser of 0 and the least element of what is never negative be 0; say whether it did."""
    p, output = node.primitive, node.output
    bounded = isinstance(p, Activation) and p.function == "clip" and (p.alpha, p.beta) == (-np.inf, 0.0)
    if not bounded or node.fused or program.is_output(output):
        return False
    value = node.inputs[0]
    while value.producer is not None and _reduces(value.producer, "min"):
        value = value.producer.inputs[0]
    if value is node.inputs[0] or not _never_negative(value):
        return False
    zeros = np.zeros(output.layout.shape, output.layout.dtype.numpy)
    program.rewire(output, program.constant(f"{output.name}/none", zeros))
    drop(program, node)
    return True


def without_integers(program: Program, node: Node) -> bool:
    """Compute ``clip(round(x / scale), low - zero, high - zero) * scale'`` for a Quantize that Dequantizes alone read.

    For one scale and zero point that the network computes; says whether it did.
    """
    p = node.primitive
    if not isinstance(p, Quantize) or p.narrow or node.output.layout.dtype not in _BYTES or len(node.inputs) < 3:
        return False
    x, scale, zero = node.inputs
    readers = node.output.readers
    fits = all(
        isinstance(n.primitive, Dequantize)
        and len(n.inputs) > 2
        and n.inputs[2] is zero
        and n.inputs[1].layout.count == 1
        for n in readers
    )
    exact = _turned(zero)
    if (
        not readers
        or not fits
        or exact is None
        or exact.layout.shape
        or scale.layout.count != 1
        or scale.constant is not None
    ):
        return False
    types = {v.layout.dtype for v in (x, scale, *(n.output for n in readers))}
    if types != {DType.F32} or read_outside(program, node.output, readers) or apart([node, *readers]) is not None:
        return False
    limits = np.iinfo(node.output.layout.dtype.numpy)

    def add(primitive: Primitive, *inputs: Value) -> Value:
        return program.insert(primitive, inputs, sources=[node], before=node).output

    low, high = (add(Activation("linear", -1.0, float(end)), exact) for end in (limits.min, limits.max))
    steps = add(Activation("round"), add(Eltwise("div"), x, scale))
    steps = add(Eltwise("min"), add(Eltwise("max"), steps, low), high)
    for reader in readers:
        by = reader.inputs[1]
        ones = by.constant is not None and float(by.constant.reshape(-1)[0]) == 1
        found = steps if ones else program.insert(Eltwise("mul"), [steps, by], sources=[reader], before=reader).output
        program.rewire(reader.output, found)
        program.erase(reader)
    drop(program, node)
    return True


def _reduces(node: Node, *functions: str) -> bool:
    return isinstance(node.primitive, Reduce) and node.primitive.function in functions and not node.fused


def _never_negative(value: Value) -> bool:
    """Whether no element can be below 0, whatever the inputs; NaN may be among them."""
    node = value.producer
    if node is None or node.fused:
        return False
    p = node.primitive
    if isinstance(p, Activation):
        return p.function in _NEVER_NEGATIVE or (p.function == "clip" and p.alpha >= 0)
    average = isinstance(p, Pooling) and p.function == "average"
    passes = average or isinstance(p, Reshape | Transpose) or _reduces(node, "max", "mean")
    return passes and _never_negative(node.inputs[0])


def _turns(node: Node, source: DType, target: DType) -> bool:
    p = node.primitive
    return isinstance(p, Reorder) and (node.inputs[0].layout.dtype, p.dtype) == (source, target)


def _turned(zero: Value) -> Value | None:
    """Return the float32 that *zero* was before it became a byte, rounded and in its range already."""
    made = zero.producer
    if made is None or not isinstance(made.primitive, Reorder) or made.inputs[0].layout.dtype != DType.F32:
        return None
    clip = made.inputs[0].producer
    whole = clip is not None and isinstance(clip.primitive, Activation) and clip.primitive.function == "clip"
    rounded = clip.inputs[0].producer if whole and clip is not None else None
    sure = rounded is not None and isinstance(rounded.primitive, Activation) and rounded.primitive.function == "round"
    return made.inputs[0] if sure else None


def _exact(value: Value) -> Value | None:
    """Return the floats that *value* was made of, where they are sums of integers."""
    turn = value.producer
    if turn is None or turn.fused or not _turns(turn, DType.F32, DType.I32):
        return None
    product = turn.inputs[0].producer
    if product is None or product.fused or len(product.inputs) != 2 or product.inputs[1].constant is None:
        return None
    p, weights = product.primitive, product.inputs[1].constant
    if not (isinstance(p, MatMul) or (isinstance(p, Convolution) and p.exact)) or (weights != np.rint(weights)).any():
        return None
    source = product.inputs[0].producer
    if source is not None and isinstance(source.primitive, Slice):
        source = source.inputs[0].producer
    if source is None or not isinstance(source.primitive, Dequantize) or source.fused:
        return None
    scale = source.inputs[1].constant
    return turn.inputs[0] if scale is not None and (scale == 1).all() else None


def drop(program: Program, node: Node) -> None:
    """Erase *node* and what nothing reads any more without it."""
    if any(v.uses or program.is_output(v) for v in node.outputs):
        return
    sources = [v.producer for v in node.inputs]
    program.erase(node)
    for source in dict.fromkeys(s for s in sources if s is not None):
        if source in program:
            drop(program, source)
