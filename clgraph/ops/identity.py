"""ONNX's Identity, which changes nothing and leaves no layer."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.graph.importing import OnnxNode, onnx


@onnx("Identity", since=(1, 13, 14, 16, 19, 21, 23, 24, 25))
def import_identity(node: OnnxNode) -> Sequence[str]:
    return node.inputs[:1]
