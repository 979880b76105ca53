"""Row schedule of a bottleneck's tickets, and its estimated time."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered, remembered_by
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.blocks import BLOCKED, Block, blocks_of
from clgraph.implementations.cpu.convolution_depthwise import tap_seconds
from clgraph.implementations.cpu.cost import TicketRanges, operand_loads, worker_flops
from clgraph.implementations.cpu.float_end import FloatEnd, float_end
from clgraph.implementations.cpu.fused_operations import in_registers
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.activation import Activation
from clgraph.ops.bottleneck import Bottleneck
from clgraph.selector.query import Query

ROWS_BYTES = 448 * 1024
"""Scratch wanted for the filtered rows of a ticket, so that they stay in the second-level cache."""

CALL_CYCLES = 130.0
"""What it takes to call for a row of a group, expanded or filtered, where entering an instance counts less (Zen 4)."""

_Asked = tuple[Query[Bottleneck], tuple[Activation, ...], int]


def between(q: Query[Bottleneck], activations: tuple[Activation, ...], lanes: int) -> FloatEnd:
    """Return how *activations* are applied to rows on their way from one convolution to the next.

    Args:
        lanes: Channels of the last block there.
    """
    return _between((q, activations, lanes))


def _activations(asked: _Asked) -> tuple[tuple[Activation, ...], int]:
    return asked[1:]


@remembered_by(_activations)
def _between(asked: _Asked) -> FloatEnd:
    """Return the same: activations read nothing of the problem."""
    q, activations, lanes = asked
    alone = Query(q.primitive, q.own, q.outputs, q.device, q.arity, tuple(map(Fused, activations)), q.constant)
    return float_end(alone, in_registers(alone), lanes)


@frozen
class Walk:
    """One problem in the driver's terms: its three parts, and how its tickets walk down the rows.

    Attributes:
        expand, project: How rows of the 1x1 convolutions are computed; ``None`` where there is none.
        group: Hidden blocks that are expanded and filtered together.
        strips, tiers: Tickets of an image: strips of output rows, ranges of groups of hidden blocks.
    """

    hidden: int
    height: int
    ring_width: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    expand: Block | None
    project: Block | None
    group: int
    strips: TicketRanges
    tiers: TicketRanges

    @property
    def blocks(self) -> int:
        """Hidden blocks."""
        return -(-self.hidden // LANES)

    @property
    def groups(self) -> int:
        """Groups of them."""
        return -(-self.blocks // self.group)

    def under(self, rows: int) -> int:
        """Return the input rows under the windows of *rows* output rows."""
        return (rows - 1) * self.stride[0] + self.kernel[0]

    @property
    def ring(self) -> int:
        """Vectors of the ring."""
        return self.group * self.kernel[0] * self.ring_width if self.expand else 0

    @property
    def scratch(self) -> int:
        """Bytes of scratch."""
        return 4 * LANES * (self.ring + (self.blocks * self.strips.each * self.width if self.project else 0))


def _row_seconds(q: Query[Bottleneck], w: Walk) -> tuple[float, float]:
    """Return one worker's time for an expanded row, and for an output row without what it expands; all channels."""
    lane, expanded = 2 * LANES / worker_flops(q.device), 0.0
    calls = CALL_CYCLES * lane if operand_loads(q.device) else 0.0
    if w.expand:
        expanded = w.expand.cost * q.inputs[1].shape[1] * lane + w.groups * calls
    rest = w.blocks * (w.width * tap_seconds(q.device, prod(w.kernel)) + calls)
    return expanded, rest + (w.project.cost * w.hidden * lane if w.project else 0.0)


def work_seconds(q: Query[Bottleneck], w: Walk) -> float:
    """Return one worker's time for one image: rows under two strips' windows are computed twice."""
    expanded, rest = _row_seconds(q, w)
    strips, last = w.strips.count, w.height - (w.strips.count - 1) * w.strips.each
    under = (strips - 1) * w.under(w.strips.each) + w.under(last) - sum(q.primitive.depthwise.pads[0])
    more = max(0, under - q.inputs[0].shape[2])
    # What lists do to rows is counted nowhere else, so that only the rows computed twice make a difference.
    vectors = (
        len(between(q, q.primitive.expanded, _lanes(w.hidden)).rest) * more * w.blocks * w.ring_width
        if w.expand
        else 0.0
    )
    return under * expanded + w.height * rest + vectors * q.device.costs.unit("staging.vector")


def depthwise_weights(q: Query[Bottleneck]) -> Layout:
    """Return the layout of the weights of the depthwise convolution, which stand behind the first one's."""
    return q.inputs[3 if q.primitive.expands else 1]


@remembered
def walk_of(q: Query[Bottleneck]) -> Walk:
    """Return how *q* is computed, whose equals passes ask about again and again."""
    return _walk(q)


@lru_cache(maxsize=256)
def _walk(q: Query[Bottleneck]) -> Walk:
    """Return how *q* is computed: as many strips as the workers need, and as make the filtered rows fit a cache."""
    p, x, y = q.primitive, q.inputs[0].shape, q.outputs[0].shape
    middle = depthwise_weights(q).shape
    stride, kernel, hidden = p.depthwise.strides, middle[2:], middle[0]
    blocks, simd, loads = -(-hidden // LANES), q.device.simd, operand_loads(q.device)
    expand = project = None
    if p.expands:
        made = blocks_of(simd, BLOCKED, 1, x[3], blocks, x[1], lanes=_lanes(hidden), loads=loads)
        expand = min(made, key=lambda b: b.cost)
    if p.projects:
        made = blocks_of(simd, BLOCKED, 1, y[3], -(-y[1] // LANES), hidden, lanes=_lanes(y[1]), loads=loads)
        project = min(made, key=lambda b: b.cost)
    group, tickets = expand.nb if expand else 1, 2 * q.device.workers
    tiers = _cut(-(-blocks // group), 1 if p.projects else 2 * tickets)
    parts = -(-tickets // y[0]) if p.projects else -(-2 * tickets // (y[0] * tiers.count))
    strips = _cut(y[2], parts)
    while p.projects and strips.each > 1 and strips.each * y[3] * blocks * LANES * 4 > ROWS_BYTES:
        parts += q.device.workers
        strips = _cut(y[2], parts)
    ring_width = max(p.depthwise.pads[1][0] + x[3], (y[3] - 1) * stride[1] + kernel[1])
    return Walk(
        hidden=hidden,
        height=y[2],
        ring_width=ring_width,
        width=y[3],
        kernel=(kernel[0], kernel[1]),
        stride=(stride[0], stride[1]),
        expand=expand,
        project=project,
        group=group,
        strips=strips,
        tiers=tiers,
    )


def _lanes(channels: int) -> int:
    """Return the channels of the last block."""
    return (channels - 1) % LANES + 1


def _cut(count: int, parts: int) -> TicketRanges:
    """Cut *count* into about *parts* runs."""
    each = -(-count // max(1, min(count, parts)))
    return TicketRanges(-(-count // each), each)
