"""Elements of one tensor or another, by a condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, Primitive, primitive
from clgraph.selector.general import General, bits_jit, launch, lines, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class Where(Primitive):
    """``y = condition ? a : b``, element by element with NumPy's broadcasting. Inputs: condition (BOOL), a, b."""

    kind: ClassVar[str] = "where"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        condition, a, b = inputs
        if condition.dtype != DType.BOOL or a.dtype != b.dtype:
            raise ShapeError(f"where requires a bool and two of one type, not {condition.dtype}, {a.dtype}, {b.dtype}")
        try:
            return (a.with_shape(broadcast(condition.shape, a.shape, b.shape)),)
        except ValueError as error:
            raise ShapeError(f"{condition}, {a} and {b} do not broadcast") from error

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.where(*inputs),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, len(inputs))


@onnx("Where", since=(9, 16))
def import_where(node: OnnxNode) -> Primitive:
    return Where()


@implements(Where, name="where.ref", serves=Serves(dtypes=frozenset(DType), mixed=True), general=True)
class WhereRef(General[Where]):
    """One work-item an element, any rank, any broadcast."""

    @classmethod
    def plan(cls, q: Query[Where]) -> Plan:
        (y,) = q.outputs
        s = space(y.shape, [View.of(y), *(View.of(x, y.shape) for x in q.own)])
        jit = bits_jit(y.dtype.itemsize, len(s.dims))
        count, dims = lines(s, q)
        numbers = table(dims, *s.views)
        return Plan((launch("where/where_ref", jit, count, "in0", "in1", "in2", "out0", numbers),))
