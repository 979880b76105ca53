"""Which nodes could run nothing, in which formats: joins and cuts whose parts lie whole inside the larger tensor."""

from __future__ import annotations

from typing import Any

from clgraph.core.format import Format, channels_last, feature_blocked
from clgraph.core.layout import Layout
from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.passes.chosen import InPlace
from clgraph.passes.selection import Proposal
from clgraph.selector.query import DeviceInfo, Query

UNIT = 64
"""Buffers and what shares them start at multiples of this many bytes: a cache line, the widest vector of any device."""
GPU_UNIT = 16
"""The same for what shares a buffer on a GPU: a vector of four floats, the widest that its kernels read."""


class WouldShare(InPlace):
    """A provisional choice: the node's parts can share one buffer, if everything around it agrees."""

    in_place = False


def unit_of(device: DeviceInfo) -> int:
    """Return the bytes that parts of a buffer start at multiples of."""
    return GPU_UNIT if device.kind == "gpu" else UNIT


def part_of(whole: Layout, axis: int, start: int, shape: tuple[int, ...]) -> tuple[Layout, int] | None:
    """Return layout and byte offset of the part of *shape* at *start* along *axis*.

    ``None`` when the part begins inside a block, or ends inside one that does not end the whole: the lanes behind it
    would be the next part's, not zeros.
    """
    block, end = whole.format.block(axis), start + shape[axis]
    if start % block or (end % block and end != whole.shape[axis]):
        return None
    layout = Layout(whole.dtype, shape, whole.format, whole.halo, whole.all_pitches)
    return layout, start // block * whole.all_pitches[axis] * whole.dtype.itemsize


def cuts(node: Node) -> tuple[int, list[int]] | None:
    """Return the axis that a slice or split cuts and where each result begins; ``None`` when it does more than that."""
    p = node.primitive
    if not node.inputs or node.fused:
        return None
    shape = node.inputs[0].layout.shape
    if isinstance(p, Split):
        return p.axis, [sum(p.sizes[:i]) for i in range(len(p.sizes))]
    if not isinstance(p, Slice) or any(step != 1 for step in p.steps):
        return None
    cut = [a for a, (start, size) in enumerate(zip(p.starts, p.sizes, strict=True)) if (start, size) != (0, shape[a])]
    return (cut[0], [p.starts[cut[0]]]) if len(cut) == 1 else None


def joins(node: Node) -> tuple[int, list[int]] | None:
    """Return the axis of a concat and where each input begins; ``None`` when it does more, or repeats an input."""
    if not isinstance(node.primitive, Concat) or node.fused or len({id(v) for v in node.inputs}) < len(node.inputs):
        return None
    axis, starts, start = node.primitive.axis, list[int](), 0
    for value in node.inputs:
        starts.append(start)
        start += value.layout.shape[axis]
    return axis, starts


def sharing_proposals(program: Program, node: Node, q: Query[Any]) -> list[Proposal]:
    """Return the proposals to run *node* as nothing, in plain and in blocked formats, as far as its sizes allow."""
    joined = joins(node)
    place = joined or cuts(node)
    if place is None or q.device.kind == "host":
        return []
    axis, starts = place
    whole, parts = (node.output, node.inputs) if joined else (node.inputs[0], node.outputs)
    if any(v.constant is not None or program.is_output(v) or (joined and v.producer is None) for v in parts):
        return []
    if whole.constant is not None:
        return []
    found = []
    for format in _formats(whole.layout.rank, q):
        layout = whole.layout.plain().with_format(format)
        placed = [part_of(layout, axis, s, v.layout.shape) for s, v in zip(starts, parts, strict=True)]
        if all(p is not None and p[1] % unit_of(q.device) == 0 for p in placed):
            inputs = tuple(x.plain().with_format(format) for x in q.inputs)
            outputs = tuple(x.plain().with_format(format) for x in q.outputs)
            found.append(Proposal(WouldShare, q.with_layouts(inputs, outputs), 0.0))
    return found


def _formats(rank: int, q: Query[Any]) -> list[Format]:
    """Return the formats in which parts may lie in a whole: if they do not after all, some kernel copies them there."""
    if rank < 3:
        return [Format.plain(rank)]
    return [Format.plain(rank), channels_last(rank) if q.device.kind == "gpu" else feature_blocked(rank)]
