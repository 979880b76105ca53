"""Operators that change nothing when a model is used, not trained; they leave no layer."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.core.dtype import DType
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.ops.fill import Fill
from clgraph.ops.shape import ShapeOf


@onnx("Identity", since=(1, 13, 14, 16, 19, 21, 23, 24, 25))
def import_identity(node: OnnxNode) -> Sequence[str]:
    return node.inputs[:1]


@onnx("Dropout", since=(1, 6, 7, 10, 12, 13, 22))
def import_dropout(node: OnnxNode) -> Sequence[str]:
    training = node.constant(2)
    given = len(node.inputs) > 2 and node.inputs[2] and (training is None or training.any())
    if given or (node.since < 7 and not node.attribute("is_test", 0)):
        raise node.unsupported("training_mode drops elements at random; only inference is run")
    if node.output_count < 2:
        return node.inputs[:1]
    ones = Fill(True, DType.BOOL) if node.since >= 10 else Fill(1.0, DType.F32)
    return (node.inputs[0], *node.emit(ones, *node.emit(ShapeOf(), node.inputs[0])))
