"""Indices of the largest or smallest elements along any axis on CPU devices, of any element type."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.along_axis import AlongAxis, LineFields
from clgraph.implementations.cpu.columns import Columns
from clgraph.implementations.cpu.element_types import RUN, RUN_BYTES, TYPES, domain_of
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.arg import ArgExtremum
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

NARROW = 16
"""Most elements of lines that are searched side by side."""

PIECE_SECONDS = 30e-9
"""What beginning a line or a run of neighbours takes."""


@descriptor("arg_elements", library="rare", any_alignment=True)
class ArgElementsDesc(LineFields, Descriptor):
    """Fields as in ``arg_elements.cl``."""

    inp: Pointer
    out: Pointer
    type: Int
    itemsize: Int
    domain: Int
    smallest: Int
    last: Int


@implements(
    ArgExtremum,
    name="arg.elements",
    serves=Serves(dtypes=frozenset(TYPES) - {DType.BOOL}, mixed=True, kinds=frozenset({"cpu"})),
)
class ArgElements(AlongAxis[ArgExtremum]):
    """Lines, or runs of neighbours that are searched side by side."""

    @classmethod
    def limits(cls, q: Query[ArgExtremum]) -> str | None:
        return super().limits(q) if q.inputs[0].count else "searches tensors with elements"

    @classmethod
    def columns(cls, q: Query[ArgExtremum]) -> Columns:
        return Columns.of(q.inputs[0].shape, q.primitive.axis, q.primitive.axis)

    @classmethod
    def piece_seconds(cls, q: Query[ArgExtremum], columns: Columns) -> float:
        """Return what a piece takes: vectors, those of 64 bits twice, a conversion as much again."""
        x = q.inputs[0].dtype
        passes = (1 + x.itemsize // 8) * (1 + (x not in (DType.F32, DType.F64, DType.I32, DType.I64)))
        if columns.inner == 1 and columns.count <= NARROW:
            return columns.count * passes * q.device.costs.unit("move.element")
        if columns.inner == 1:
            vectors = -(-columns.count // LANES) + 4 * -(-columns.count // RUN)
        else:
            vectors = columns.count * (2 * -(-min(columns.inner, RUN) // LANES) + 4)
        return PIECE_SECONDS + vectors * passes * q.device.costs.unit("copy.vector")

    @classmethod
    def plan(cls, q: Query[ArgExtremum]) -> Plan:
        x, p = q.inputs[0].dtype, q.primitive
        tickets, lines = cls.cut(q)
        desc = ArgElementsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            **lines,
            type=TYPES[x],
            itemsize=x.itemsize,
            domain=domain_of(x),
            smallest=int(p.smallest),
            last=int(p.last),
        )
        return Plan((Tile("arg_elements", desc, tickets, scratch=4 * RUN * RUN_BYTES),))
