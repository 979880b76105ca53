"""Operators of ONNX Runtime that ONNX has adopted: nodes of ONNX Runtime's are read as ONNX's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.errors import UnsupportedError
from clgraph.frontend.attribute_rules import plain_value
from clgraph.frontend.protobuf import onnx
from clgraph.graph.importing import MICROSOFT


@frozen
class Adopted:
    """ONNX's version of an operator.

    Attributes:
        opset: The operator set that has it.
        further: Attributes that only ONNX Runtime's has, with the values by which both are the same.
    """

    opset: int
    further: Mapping[str, int]


_ADOPTED = {
    "CausalConvWithState": Adopted(
        27,
        {
            "channels_last": 0,
            "dilation": 1,
            "input_channel_offset": 0,
            "input_channels": 0,
            "ndim": 1,
            "state_channels_last": -1,
            "state_length": 0,
            "state_update_capacity": 0,
            "state_window": 0,
        },
    ),
}


def adopted(op_type: str, domain: str) -> Adopted | None:
    """Return ONNX's version of an operator of ONNX Runtime's, ``None`` where there is none."""
    return _ADOPTED.get(op_type) if domain == MICROSOFT else None


def as_onnx(node: onnx.NodeProto, name: str, version: Adopted) -> onnx.NodeProto:
    """Return *node* as ONNX's; raises ``UnsupportedError`` where ONNX's does not do what it asks for."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.domain = ""
    del made.attribute[:]
    for attribute in node.attribute:
        value: Any = plain_value(attribute)
        if attribute.name not in version.further:
            made.attribute.append(attribute)
        elif value != (wanted := version.further[attribute.name]):
            raise UnsupportedError(
                f"node {name!r} ({node.op_type}): {attribute.name}={value} is not supported, only {wanted}, as in ONNX"
            )
    return made
