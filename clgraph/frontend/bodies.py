"""The graphs inside nodes of control flow."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.frontend.protobuf import onnx


def bodies_of(attribute: onnx.AttributeProto) -> Sequence[onnx.GraphProto]:
    """Return the graphs that *attribute* holds."""
    return [attribute.g] if attribute.HasField("g") else attribute.graphs
