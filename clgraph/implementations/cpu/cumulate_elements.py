"""Running sums and products of elements of any type along any axis on CPU devices."""

from __future__ import annotations

from typing import Any, ClassVar

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.along_axis import AlongAxis, LineFields
from clgraph.implementations.cpu.columns import Columns
from clgraph.implementations.cpu.element_types import RUN, RUN_BYTES, TYPES, domain_of, signed
from clgraph.implementations.cpu.geometry import LANES
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Serves
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

ANY_NUMBERS = Serves(dtypes=(frozenset(TYPES) | {DType.U64}) - {DType.BOOL}, kinds=frozenset({"cpu"}))

LINE = 12.0
"""What 16 elements of a line take, one after another, in the time that a vector of 16 floats takes to copy."""

SHORT, FEW = 64, 8
"""Most elements of images that are summed up several at a time, and lines that lie side by side there."""


@descriptor("cumulate_elements", library="rare", any_alignment=True)
class CumulateElementsDesc(LineFields, Descriptor):
    """Fields as in ``cumulate_elements.cl``."""

    inp: Pointer
    out: Pointer
    type: Int
    itemsize: Int
    domain: Int
    product: Int
    exclusive: Int
    reverse: Int


class CumulatedElements(AlongAxis[Any]):
    """Lines, few of them side by side too, or runs of neighbours that are summed up together.

    Attributes:
        product: Whether products are made, not sums.
    """

    product: ClassVar[bool] = False

    @classmethod
    def columns(cls, q: Query[Any]) -> Columns:
        axis = q.primitive.axis or 0
        return Columns.of(q.inputs[0].shape, axis, axis)

    @classmethod
    def piece_seconds(cls, q: Query[Any], columns: Columns) -> float:
        passes = 2 + (q.inputs[0].dtype not in (DType.F32, DType.F64, DType.I32, DType.I64))
        vectors: float
        each = columns.count * columns.inner
        if columns.inner <= FEW and (columns.inner > 1 or each <= SHORT):
            vectors = max(1, each) / LANES * (LINE + passes)
        elif columns.inner == 1:
            vectors = -(-columns.count // LANES) * (LINE + passes)
        else:
            vectors = columns.count * (-(-min(columns.inner, RUN) // LANES) + 2) * passes
        return vectors * q.device.costs.unit("copy.vector")

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        x = q.inputs[0].dtype
        tickets, lines = cls.cut(q)
        desc = CumulateElementsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            **lines,
            type=TYPES[signed(x)],
            itemsize=x.itemsize,
            domain=domain_of(x),
            product=int(cls.product),
            exclusive=int(q.primitive.exclusive),
            reverse=int(q.primitive.reverse),
        )
        return Plan((Tile("cumulate_elements", desc, tickets, scratch=(2 * RUN + LANES) * RUN_BYTES),))
