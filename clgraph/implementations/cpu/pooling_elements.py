"""Maxima of windows of plain tensors on CPU devices, of element types that no blocks are made of."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.blocked import square
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.elements import BYTES, RUN, RUN_BYTES, TYPES, domain_of
from clgraph.implementations.cpu.geometry import LANES, SlidingWindow, count_refusal, window
from clgraph.ops.pooling import Pooling
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_ROW = 8
"""Vectors that take as long as what is done once a row of the input."""

WIDEST = 1 << 14
"""Elements of a row with what is around it, of which scratch holds two."""


@descriptor("pool_elements", library="rare", any_alignment=True)
class PoolElementsDesc(SlidingWindow, Descriptor):
    """Fields as in ``pool_elements.cl``."""

    inp: Pointer
    out: Pointer
    type: Int
    itemsize: Int
    domain: Int
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    pad_top: Int
    pad_left: Int
    reach: Int
    rows: Int
    ticket_rows: Int


@implements(
    Pooling,
    name="pooling.elements",
    serves=Serves(dtypes=frozenset({DType.F64, DType.F16, DType.I8, DType.U8}), kinds=frozenset({"cpu"})),
)
class PoolElements(Implementation[Pooling]):
    """A row at a time: down its windows, then along them."""

    @classmethod
    def limits(cls, q: Query[Pooling]) -> str | None:
        x, (y,), p = q.inputs[0], q.outputs, q.primitive
        if p.function != "max" or x.rank not in (3, 4):
            return f"serves maxima over one or two axes, not {p.function} over {x.rank - 2}"
        if not x.is_dense_plain or not y.is_dense_plain or not x.count:
            return "serves dense plain tensors of some elements"
        if x.dtype == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        return f"serves rows of up to {WIDEST} elements" if reach(q) > WIDEST else count_refusal(q)

    @classmethod
    def cost(cls, q: Query[Pooling]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, count_rows(q) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        x, (y,), p, tickets = q.inputs[0], q.outputs, q.primitive, _tickets(q)
        pads = p.pads if len(p.pads) == 2 else ((0, 0), *p.pads)
        desc = PoolElementsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            type=TYPES[x.dtype],
            itemsize=x.dtype.itemsize,
            domain=BYTES if x.dtype.itemsize == 1 else domain_of(x.dtype),
            in_height=x.shape[2] if x.rank == 4 else 1,
            in_width=x.shape[-1],
            height=y.shape[2] if y.rank == 4 else 1,
            width=y.shape[-1],
            **window(square(p.kernel), square(p.strides), square(p.dilations)),
            pad_top=pads[0][0],
            pad_left=pads[1][0],
            reach=reach(q),
            rows=count_rows(q),
            ticket_rows=tickets.each,
        )
        scratch = RUN * RUN_BYTES + 2 * reach(q) * RUN_BYTES
        return Plan((Tile("pool_elements", desc, tickets.count, scratch=scratch),))


def reach(q: Query[Pooling]) -> int:
    """Return the elements from the first of a row's windows, or of its input behind the pad, to the last of either."""
    p, x, y = q.primitive, q.inputs[0], q.outputs[0]
    windows = (y.shape[-1] - 1) * p.strides[-1] + (p.kernel[-1] - 1) * p.dilations[-1] + 1
    return max(windows, p.pads[-1][0] + x.shape[-1])


def count_rows(q: Query[Pooling]) -> int:
    """Return the rows of the result of all planes."""
    return prod(q.outputs[0].shape[:-1])


def _row_seconds(q: Query[Pooling]) -> float:
    down, along = square(q.primitive.kernel)
    vectors = -(-reach(q) // LANES) * (1 + q.inputs[0].dtype.itemsize // 8)
    return (vectors * (down + along + 3) + _ROW * (down + along)) * q.device.costs.unit("copy.vector")


def _tickets(q: Query[Pooling]) -> TicketRanges:
    return runs(count_rows(q), _row_seconds(q), q.device)
