"""Logarithms of sums of exponentials of integers on CPU devices, over the last axes, computed in doubles."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.along_axis import AlongAxis, LineFields
from clgraph.implementations.cpu.columns import Columns
from clgraph.implementations.cpu.element_types import CONVERTED, RUN, RUN_BYTES
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.reduce import Reduce, over_last_axes
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

INTEGERS = frozenset(d for d in CONVERTED if not d.floating and d != DType.BOOL)

_SLOW = 5.0
"""What 16 elements take, in the time that a vector of 16 floats takes to copy."""


@descriptor("reduce_exponentials", library="rare", any_alignment=True)
class ReduceExponentialsDesc(LineFields, Descriptor):
    """Fields as in ``reduce_exponentials.cl``."""

    inp: Pointer
    out: Pointer
    type: Int
    itemsize: Int


@implements(Reduce, name="reduce.exponentials", serves=Serves(dtypes=INTEGERS, kinds=frozenset({"cpu"})))
class ReduceExponentials(AlongAxis[Reduce]):
    """A line at a time, twice: its maximum, then its sum."""

    @classmethod
    def limits(cls, q: Query[Reduce]) -> str | None:
        p, x = q.primitive, q.inputs[0]
        if p.function != "log_sum_exp" or not x.count or not over_last_axes(p, x.rank):
            return f"serves log_sum_exp of the last axes of some elements, not {p.function} of axes {p.reduced(x.rank)}"
        return super().limits(q) if "fp64" in q.device.features else "needs fp64 for doubles"

    @classmethod
    def columns(cls, q: Query[Reduce]) -> Columns:
        x = q.inputs[0]
        return Columns.of(x.shape, min(q.primitive.reduced(x.rank)), x.rank - 1)

    @classmethod
    def piece_seconds(cls, q: Query[Reduce], columns: Columns) -> float:
        return (-(-columns.count // LANES) * _SLOW + 8) * q.device.costs.unit("copy.vector")

    @classmethod
    def plan(cls, q: Query[Reduce]) -> Plan:
        x = q.inputs[0]
        tickets, lines = cls.cut(q)
        desc = ReduceExponentialsDesc(
            inp=Ref("in0"), out=Ref("out0"), **lines, type=CONVERTED[x.dtype], itemsize=x.dtype.itemsize
        )
        return Plan((Tile(desc.function, desc, tickets, scratch=4 * RUN * RUN_BYTES),))
