"""Compute small constant parts of the graph on the host. clDNN leaves all of it to propagate_constants."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clgraph.core.dtype import largest
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.integers import Integers
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context, Pass

_KEPT = (np.int8, np.uint8, np.int32)
"""Types of integers that weights and biases remember."""


@frozen
class FoldConstants(Pass):
    """Replace nodes whose inputs are all constants by their reference results.

    Later passes look at constants (weights to scale, shapes of operands), so what is cheap is known from here on. A
    node is left to propagate_constants, which runs on the device, when its arithmetic or its result is large.

    Attributes:
        flops: The most arithmetic a folded node may cost.
        elements: The most elements of a result that is larger than the node's inputs.
    """

    flops: float = 2.0e7
    elements: int = 1 << 16

    name: ClassVar[str] = "fold_constants"
    required: ClassVar[bool] = True

    def run(self, program: Program, context: Context) -> int:
        folded = 0
        for node in program:
            values = [v.constant for v in node.inputs if v.constant is not None]
            if len(values) == len(node.inputs) and self._is_cheap(node):
                fold(program, node, _results(node, values, context), _integers(node, context))
                folded += 1
        return folded

    def describe(self, kind: str) -> str:
        return "computed once, by its reference, where everything it reads is constant"

    def _is_cheap(self, node: Node) -> bool:
        inputs, outputs = [v.layout for v in node.inputs], [v.layout for v in node.outputs]
        if not node.primitive.has_reference:
            return False
        made, read = sum(x.count for x in outputs), sum(x.count for x in inputs)
        return made <= max(self.elements, read) and node.primitive.flops(inputs, outputs) <= self.flops


def _results(node: Node, values: list[Array], context: Context) -> tuple[Array, ...]:
    if len(node.outputs) > 1:
        return node.reference(*values)
    return (context.packed.once((node.primitive, node.fused), values, lambda: _result(node, values)),)


def _result(node: Node, values: list[Array]) -> Array:
    with np.errstate(over="ignore"):
        (result,) = node.reference(*values)
    if node.primitive.kind != "dequantize" or not np.isfinite(values[1]).all():
        return result
    # Of a mask of the smallest float whose steps are rounded up: times 0 it is 0, as computed from integers.
    most = largest(result.dtype)
    return np.clip(result, -most, most)


def fold(program: Program, node: Node, results: tuple[Array, ...], integers: Integers | None) -> None:
    """Replace *node* by its known *results*, which *integers* were scaled to."""
    for value, result in zip(node.outputs, results, strict=True):
        program.rewire(value, Value(value.name, Layout.of(result), constant=result, integers=integers))
    program.erase(node)


def _integers(node: Node, context: Context) -> Integers | None:
    """Return the integers of 8 bits, or of a bias's 32, that *node* scales, or whose axes it gives another order."""
    p = node.primitive
    if node.fused:
        return None
    if isinstance(p, Transpose) and (found := node.inputs[0].integers) is not None:
        data = found.data
        turned = context.packed.once(p, [data], lambda: np.ascontiguousarray(data.transpose(p.axes)))
        return Integers(turned, found.scale, found.zero, p.axes.index(found.axis))
    if p.kind != "dequantize":
        return None
    # Imported only where it is read: with its kin it takes 1 ms of every start.
    from clgraph.ops.dequantize import Dequantize

    assert isinstance(p, Dequantize)
    if p.block:
        return None
    whole, scale, zero = (*(v.constant for v in node.inputs), None)[:3]
    return None if whole is None or whole.dtype not in _KEPT or scale is None else Integers(whole, scale, zero, p.axis)
