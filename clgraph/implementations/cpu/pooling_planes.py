"""Pooling of plain float32 tensors on CPU devices, over one to three axes."""

from __future__ import annotations

from math import prod
from typing import TypeVar

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.implementations.cpu.pooled_rows import count_rows
from clgraph.implementations.cpu.pooling_elements import reach
from clgraph.ops.pooling import Pooling
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

T = TypeVar("T")

_ROW = 8
"""Vectors that take as long as what is done once a row of the result."""

WIDEST = 1 << 14
"""Elements of a row with what is around it, which scratch holds."""

_MOST_STRIDE = 16
"""The stride up to which elements behind a row are held, too."""

_DEEPEST = 1 << 10
"""Rows of a window, whose places scratch holds."""


@descriptor("pool_planes", library="rare", any_alignment=True)
class PoolPlanesDesc(Descriptor):
    """Fields as in ``pool_planes.cl``."""

    inp: Pointer
    out: Pointer
    count: Long
    average: Int
    padded: Int
    in_depth: Int
    in_height: Int
    in_width: Int
    depth: Int
    height: Int
    width: Int
    kernel_z: Int
    kernel_y: Int
    kernel_x: Int
    stride_z: Int
    stride_y: Int
    stride_x: Int
    dilation_z: Int
    dilation_y: Int
    dilation_x: Int
    pad_front: Int
    pad_top: Int
    pad_left: Int
    pad_back: Int
    pad_bottom: Int
    pad_right: Int
    reach: Int
    rows: Int
    ticket_rows: Int


@implements(Pooling, name="pooling.planes", serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})))
class PoolPlanes(Implementation[Pooling]):
    """A row at a time: down and through its windows, then along them."""

    @classmethod
    def limits(cls, q: Query[Pooling]) -> str | None:
        x, (y,), p = q.inputs[0], q.outputs, q.primitive
        if not 3 <= x.rank <= 5:
            return f"serves one to three axes, not {x.rank - 2}"
        if not x.is_dense_plain or not y.is_dense_plain or not x.count or not y.count:
            return "serves dense plain tensors of some elements"
        if p.strides[-1] > _MOST_STRIDE or prod(p.kernel[:-1]) > _DEEPEST:
            return f"serves strides along rows of up to {_MOST_STRIDE}, windows of up to {_DEEPEST} rows"
        return f"serves rows of up to {WIDEST} elements" if reach(q) > WIDEST else count_refusal(q)

    @classmethod
    def cost(cls, q: Query[Pooling]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, count_rows(q.outputs[0]) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        x, (y,), p, tickets = q.inputs[0], q.outputs, q.primitive, _tickets(q)
        (in_depth, in_height, in_width), (depth, height, width) = _three(x.shape[2:], 1), _three(y.shape[2:], 1)
        kernel, strides, dilations = (_three(v, 1) for v in (p.kernel, p.strides, p.dilations))
        (front, back), (top, bottom), (left, right) = _three(p.pads, (0, 0))
        desc = PoolPlanesDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            count=x.count,
            average=int(p.function == "average"),
            padded=int(p.count_include_pad),
            in_depth=in_depth,
            in_height=in_height,
            in_width=in_width,
            depth=depth,
            height=height,
            width=width,
            kernel_z=kernel[0],
            kernel_y=kernel[1],
            kernel_x=kernel[2],
            stride_z=strides[0],
            stride_y=strides[1],
            stride_x=strides[2],
            dilation_z=dilations[0],
            dilation_y=dilations[1],
            dilation_x=dilations[2],
            pad_front=front,
            pad_top=top,
            pad_left=left,
            pad_back=back,
            pad_bottom=bottom,
            pad_right=right,
            reach=reach(q),
            rows=count_rows(q.outputs[0]),
            ticket_rows=tickets.each,
        )
        floats = -(-kernel[0] * kernel[1] // LANES) * LANES + -(-width // LANES) * LANES + 2 * LANES
        floats += reach(q) + LANES * strides[2] + 2 * LANES
        return Plan((Tile("pool_planes", desc, tickets.count, scratch=4 * floats),))


def _three(along: tuple[T, ...], other: T) -> tuple[T, T, T]:
    """Return what there is along each of three axes, *other* along those that are not there."""
    a, b, c = (*(other,) * (3 - len(along)), *along)
    return a, b, c


def _row_seconds(q: Query[Pooling]) -> float:
    p, x, y = q.primitive, q.inputs[0], q.outputs[0]
    down = -(-x.shape[-1] // LANES) * (prod(p.kernel[:-1]) + 1)
    along = -(-y.shape[-1] // LANES) * (p.kernel[-1] * min(p.strides[-1], 2) * (1 if p.strides[-1] < 3 else 8) + 2)
    return (_ROW + down + along) * q.device.costs.unit("copy.vector")


def _tickets(q: Query[Pooling]) -> TicketRanges:
    return runs(count_rows(q.outputs[0]), _row_seconds(q), q.device)
