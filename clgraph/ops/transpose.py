"""The axes of a tensor in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.selector.general import General, move
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class Transpose(Primitive):
    """Axis i of ``y`` is axis ``axes[i]`` of x; empty *axes* before ``bind``: all reversed."""

    axes: tuple[int, ...] = ()

    kind: ClassVar[str] = "transpose"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(Transpose(self.axes or tuple(reversed(range(inputs[0].rank)))), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if sorted(self.axes) != list(range(x.rank)):
            raise ShapeError(f"{self.axes} is not an order of {x.rank} axes")
        return (x.with_shape(tuple(x.shape[a] for a in self.axes)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.ascontiguousarray(inputs[0].transpose(self.axes)).reshape([inputs[0].shape[a] for a in self.axes]),)


@onnx("Transpose", since=(1, 13, 21, 23, 24, 25))
def import_transpose(node: OnnxNode) -> Primitive:
    return Transpose(tuple(node.attribute("perm", ())))


@implements(Transpose, name="transpose.ref", serves=Serves(dtypes=frozenset(DType)), general=True)
class TransposeRef(General[Transpose]):
    """A copy from a view with the pitches in another order."""

    @classmethod
    def plan(cls, q: Query[Transpose]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        turned = View(x.origin, tuple(x.all_pitches[a] for a in q.primitive.axes))
        return Plan((move(x, ("in0", turned), ("out0", View.of(y)), y.shape),))
