"""Softmax of doubles on CPU devices, over neighbouring axes."""

from __future__ import annotations

from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.along_axis import AlongAxis, LineFields
from clgraph.implementations.cpu.columns import Columns
from clgraph.implementations.cpu.element_types import RUN, RUN_BYTES
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.softmax import Softmax
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_SLOW = 30.0
"""What 16 elements take, in the time that a vector of 16 floats takes to copy."""
_FEW = 16
"""Lines of fewer elements are computed together, ``FEW`` of the kernel."""


@descriptor("softmax_doubles", library="rare", any_alignment=True)
class SoftmaxDoublesDesc(LineFields, Descriptor):
    """Fields as in ``softmax_doubles.cl``."""

    inp: Pointer
    out: Pointer
    logarithm: Int


@implements(Softmax, name="softmax.doubles", serves=Serves(dtypes=frozenset({DType.F64}), kinds=frozenset({"cpu"})))
class SoftmaxDoubles(AlongAxis[Softmax]):
    """Lines, or neighbours side by side, each with its own maximum and sum.

    Attributes:
        widest: A thousand steps along the axis of so many neighbours stay in a core's cache.
    """

    widest: ClassVar[int] = 128

    @classmethod
    def limits(cls, q: Query[Softmax]) -> str | None:
        axes = sorted(q.primitive.axes)
        if not q.inputs[0].count or axes != list(range(axes[0], axes[-1] + 1)):
            return f"serves neighbouring axes of tensors with elements, not {axes}"
        return super().limits(q)

    @classmethod
    def columns(cls, q: Query[Softmax]) -> Columns:
        axes = sorted(q.primitive.axes)
        return Columns.of(q.inputs[0].shape, axes[0], axes[-1])

    @classmethod
    def piece_seconds(cls, q: Query[Softmax], columns: Columns) -> float:
        if columns.inner == 1 and columns.count < _FEW:
            return (columns.count / LANES * _SLOW + 2) * q.device.costs.unit("copy.vector")
        side = 1 if columns.inner == 1 else columns.count
        vectors = -(-(columns.count if columns.inner == 1 else min(columns.inner, cls.widest)) // LANES)
        return side * (vectors * _SLOW + 8) * q.device.costs.unit("copy.vector")

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        tickets, lines = cls.cut(q)
        desc = SoftmaxDoublesDesc(inp=Ref("in0"), out=Ref("out0"), **lines, logarithm=int(q.primitive.log))
        return Plan((Tile("softmax_doubles", desc, tickets, scratch=4 * RUN * RUN_BYTES),))
