"""Maxima of windows of plain tensors on CPU devices, of element types that no blocks are made of."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.element_types import BYTES, RUN, RUN_BYTES, domain_of
from clgraph.implementations.cpu.geometry import LANES
from clgraph.implementations.cpu.pooled_rows import PooledRows, count_rows, pooled_rows, rows_refusal
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
class PoolElementsDesc(PooledRows, Descriptor):
    """Fields as in ``pool_elements.cl``."""

    inp: Pointer
    out: Pointer
    domain: Int
    reach: Int
    in_depth: Int
    depth: Int
    kernel_z: Int
    stride_z: Int
    dilation_z: Int
    pad_front: Int


@implements(
    Pooling,
    name="pooling.elements",
    serves=Serves(dtypes=frozenset({DType.F64, DType.F16, DType.I8, DType.U8}), kinds=frozenset({"cpu"})),
)
class PoolElements(Implementation[Pooling]):
    """A row at a time: down and through its windows, then along them."""

    @classmethod
    def limits(cls, q: Query[Pooling]) -> str | None:
        if q.primitive.function != "max":
            return f"serves maxima, not {q.primitive.function}"
        too_wide = f"serves rows of up to {WIDEST} elements" if reach(q) > WIDEST else None
        return rows_refusal(q, axes=3) or too_wide

    @classmethod
    def cost(cls, q: Query[Pooling]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, count_rows(q.outputs[0]) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        x, (y,), p, tickets = q.inputs[0], q.outputs, q.primitive, _tickets(q)
        deep = x.rank == 5
        desc = PoolElementsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            domain=BYTES if x.dtype.itemsize == 1 else domain_of(x.dtype),
            reach=reach(q),
            in_depth=x.shape[2] if deep else 1,
            depth=y.shape[2] if deep else 1,
            kernel_z=p.kernel[0] if deep else 1,
            stride_z=p.strides[0] if deep else 1,
            dilation_z=p.dilations[0] if deep else 1,
            pad_front=p.pads[0][0] if deep else 0,
            **pooled_rows(_last_two(p), x, y, tickets.each),
        )
        scratch = RUN * RUN_BYTES + 2 * reach(q) * RUN_BYTES
        return Plan((Tile("pool_elements", desc, tickets.count, scratch=scratch),))


def reach(q: Query[Pooling]) -> int:
    """Return the elements from the first of a row's windows, or of its input behind the pad, to the last of either."""
    p, x, y = q.primitive, q.inputs[0], q.outputs[0]
    windows = (y.shape[-1] - 1) * p.strides[-1] + (p.kernel[-1] - 1) * p.dilations[-1] + 1
    return max(windows, p.pads[-1][0] + x.shape[-1])


def _last_two(p: Pooling) -> Pooling:
    """Return the windows along the last two axes, or along the one that there is."""
    return replace(p, kernel=p.kernel[-2:], strides=p.strides[-2:], dilations=p.dilations[-2:], pads=p.pads[-2:])


def _row_seconds(q: Query[Pooling]) -> float:
    along = q.primitive.kernel[-1]
    down = prod(q.primitive.kernel) // along
    vectors = -(-reach(q) // LANES) * (1 + q.inputs[0].dtype.itemsize // 8)
    return (vectors * (down + along + 3) + _ROW * (down + along)) * q.device.costs.unit("copy.vector")


def _tickets(q: Query[Pooling]) -> TicketRanges:
    return runs(count_rows(q.outputs[0]), _row_seconds(q), q.device)
