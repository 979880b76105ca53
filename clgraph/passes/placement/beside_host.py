"""Conversions of a few numbers that the host has made: a device waits longer for them than they take."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.dtype import DType
from clgraph.graph.node import Node
from clgraph.ops.activation import Activation
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context
from clgraph.passes.selection import unserved
from clgraph.selector.query import query_of

_FEW = 1 << 12
"""Elements up to which a conversion is offered to the host: a model of other sizes may share what is compiled."""

_CONVERTED = {(DType.F32, DType.F64), (DType.F32, DType.I64), (DType.I32, DType.I64)}
"""Element types between which the host converts as devices do."""

_EXACT = frozenset({"abs", "neg", "sign"})
"""Functions of which the host's results are the device's, bit by bit."""


def offer_host(context: Context, places: Mapping[Node, list[str]]) -> None:
    """Add the host to the places of exact conversions whose input only it makes; what is cheaper is decided by cost."""
    host = next((name for name, device in context.devices.items() if device.kind == "host"), None)
    if host is None or context.placement:
        return
    for node, able in places.items():  # in execution order, so that chains of them follow
        maker = _maker_before(node)
        made_here = maker is not None and maker in places and places[maker][-1:] == [host]
        offered = made_here and host not in able and node.annotation is None
        if offered and unserved(context, node, query_of(node, context.devices[host])) is None:
            able.append(host)


def stays(node: Node) -> bool:
    """Whether *node*, which is on the host, is a conversion of what was made there, as :func:`offer_host` offers."""
    maker = _maker_before(node)
    return maker is not None and maker.placement == node.placement


def _maker_before(node: Node) -> Node | None:
    """Return what makes the only input of an exact conversion of a few numbers; ``None`` of any other node."""
    if len(node.inputs) != 1 or len(node.outputs) != 1 or node.inputs[0].layout.count > _FEW:
        return None
    x, y, of = node.inputs[0].layout.dtype, node.output.layout.dtype, node.primitive
    converts = isinstance(of, Reorder) and (x, y) in _CONVERTED
    return node.inputs[0].producer if converts or (isinstance(of, Activation) and of.function in _EXACT) else None
