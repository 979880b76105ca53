"""A tensor of one value: ONNX's ConstantOfShape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ModelError
from clgraph.graph.attributes import known_ints
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.selector.general import General, bits_jit, launch, table, value_words
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class Fill(Primitive):
    """Every element is *value*; takes no input once bound.

    Attributes:
        shape: Of the result; ``None`` before ``bind``: the value of input 0.
    """

    value: float | int | bool
    dtype: DType
    shape: tuple[int, ...] | None = None

    kind: ClassVar[str] = "fill"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(self if self.shape is not None else replace(self, shape=known_ints(values, 0, "shape")), ())

    def value_slots(self) -> tuple[int, ...]:
        return (0,) if self.shape is None else ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(self.dtype, self.shape or ()),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.full(self.shape or (), self.value, self.dtype.numpy),)


@onnx("ConstantOfShape", since=(9, 20, 21, 23, 24, 25))
def import_constant_of_shape(node: OnnxNode) -> Primitive:
    value = np.asarray(node.attribute("value", np.zeros(1, np.float32)))
    dtype = DType.of(value.dtype)
    if not value.size:
        raise ModelError("value holds no element; expected one, which the result is filled with")
    return Fill(value.ravel()[0].item(), dtype)


@implements(Fill, name="fill.ref", serves=Serves(dtypes=frozenset(DType)), general=True)
class FillRef(General[Fill]):
    """One work-item an element."""

    @classmethod
    def plan(cls, q: Query[Fill]) -> Plan:
        (y,) = q.outputs
        s = space(y.shape, [View.of(y)])
        jit = bits_jit(y.dtype.itemsize, len(s.dims))
        words = value_words(q.primitive.value, y.dtype)
        return Plan((launch("fill/fill_ref", jit, s.counts[0], "out0", table(s.dims, *s.views), *words),))
