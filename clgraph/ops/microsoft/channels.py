"""Channels as the first or the last axis behind the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.transpose import Transpose


@primitive
@frozen
class MoveChannels(Composite):
    """x ``[N, *spatial, C]`` as ``[N, C, *spatial]``, or the other way round where they go *back*."""

    back: bool = False

    kind: ClassVar[str] = "move_channels"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        rank = c.layout(x).rank
        spatial = range(2, rank) if self.back else range(1, rank - 1)
        axes = (0, *spatial, 1) if self.back else (0, rank - 1, *spatial)
        return (c.add(Transpose(axes), x) if rank > 2 else x,)


def channels_last(node: OnnxNode, primitive: Primitive, x: str, *inputs: str) -> tuple[str, ...]:
    """Emit *primitive*, which has channels first, for x and a result that have them last."""
    (turned,) = node.emit(MoveChannels(), x)
    (y,) = node.emit(primitive, turned, *inputs)
    return node.emit(MoveChannels(back=True), y)
