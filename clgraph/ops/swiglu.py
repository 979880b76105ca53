"""A gated activation: ONNX's SwiGLU, which is Swish and a product."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.graph.importing import OnnxNode, onnx
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise


@onnx("SwiGLU", since=(28,))
def import_swiglu(node: OnnxNode) -> Sequence[str]:
    gate, value = node.inputs
    return node.emit(Eltwise("mul"), *node.emit(Activation("swish", node.attribute("alpha", 1.0)), gate), value)
