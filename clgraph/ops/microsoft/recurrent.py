"""An LSTM with 8-bit weights: ONNX Runtime's DynamicQuantizeLSTM, by the weights as floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.dynamic_quantize import DynamicQuantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.recurrent import emit_recurrent
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where


@primitive
@frozen
class RecurrentWeights(Composite):
    """Weights ``[directions, columns, rows]`` of 8 bits as floats ``[directions, rows, columns]``.

    Inputs: weights, scale and zero point: ``[directions]``, or ``[directions, rows]``.
    """

    kind: ClassVar[str] = "recurrent_weights"

    def compose(self, c: Composition) -> Sequence[str]:
        weights, *parameters = c.inputs
        shape = c.layout(weights).shape
        if len(shape) != 3:
            raise ShapeError(f"weights are [directions, columns, rows], not {list(shape)}")
        scale, zero = (self._wide(c, p, shape) for p in parameters)
        whole, start = (c.add(Reorder(DType.F32), x) for x in (weights, zero))
        y = c.add(Eltwise("mul"), c.add(Eltwise("sub"), whole, start), scale)
        return (c.add(Transpose((0, 2, 1)), y),)

    def _wide(self, c: Composition, parameter: str, shape: Sequence[int]) -> str:
        count = int(np.prod(c.layout(parameter).shape))
        if count not in (1, shape[0], shape[0] * shape[2]):
            raise ShapeError(f"{c.layout(parameter)} is not a scale or zero point of weights {list(shape)}")
        rows = shape[2] if count == shape[0] * shape[2] else 1
        return c.add(Reshape((count // rows, 1, rows)), parameter)


@primitive
@frozen
class LongestSequence(Composite):
    """x ``[tokens, batch, I]``, and 0 behind the last token of the longest sequence. Inputs: x, lengths ``[batch]``."""

    kind: ClassVar[str] = "longest_sequence"

    def compose(self, c: Composition) -> Sequence[str]:
        x, lengths = c.inputs
        tokens = c.constant(np.arange(c.layout(x).shape[0], dtype=np.int32)[:, None, None])
        there = c.add(Eltwise("less"), tokens, c.add(Reduce("max"), lengths))
        return (c.add(Where(), there, x, c.constant(np.zeros((), np.float32))),)


@onnx("DynamicQuantizeLSTM", since=(1,), domain=MICROSOFT)
def import_dynamic_quantize_lstm(node: OnnxNode) -> Sequence[str]:
    """Return an LSTM of x and hidden states in 8 bits: x of all tokens at once, states token by token."""
    x, w, r, *optional = node.inputs[:8]
    if lengths := optional[1]:
        (x,) = node.emit(LongestSequence(), x, lengths)
    (x,) = node.emit(Dequantize(), *node.emit(DynamicQuantize(), x, outputs=3))
    parameters = node.inputs[8:]
    node.note("weights of 8 bits become float32, because recurrent cells have no products of integers")
    (w,) = node.emit(RecurrentWeights(), w, *parameters[:2])
    (r,) = node.emit(RecurrentWeights(), r, *parameters[2:])
    return emit_recurrent(node, "lstm", (x, w, r, *optional), rounded=True)
