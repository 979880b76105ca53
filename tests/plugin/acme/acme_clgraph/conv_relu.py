"""A compound operator: a two-dimensional convolution and the relu behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.convolution import Convolution
from clgraph.selector.general import General, float_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@dataclass(frozen=True, slots=True)
class ConvRelu(Primitive):
    """``y = max(convolution(x, w, bias), 0)``: inputs and attributes as those of a convolution of images."""

    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[tuple[int, int], tuple[int, int]]
    groups: int = 1

    kind: ClassVar[str] = "acme_conv_relu"

    @property
    def convolution(self) -> Convolution:
        """The convolution alone."""
        return Convolution(self.strides, self.dilations, self.pads, self.groups)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return self.convolution.infer(inputs)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (y,) = self.convolution.reference(*inputs)
        return (np.maximum(y, 0),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return self.convolution.flops(inputs, outputs) + outputs[0].count


@implements(
    ConvRelu,
    name="acme.conv_relu",
    serves=Serves(dtypes=frozenset({DType.F32}), features=frozenset({"acme"})),
    general=True,
)
class ConvReluKernel(General[ConvRelu]):
    """One work-item an output element."""

    @classmethod
    def plan(cls, q: Query[ConvRelu]) -> Plan:
        (x, w), (y,), p = q.own[:2], q.outputs, q.primitive
        bias = "in2" if q.arity > 2 else "null"
        window = (*p.strides, *p.dilations, p.pads[0][0], p.pads[1][0])
        sizes = (*y.shape, *w.shape[1:], *x.shape[2:], w.shape[0] // p.groups)
        numbers = table(sizes, window, *(View.of(v) for v in (y, x, w)))
        jit = float_jit(DType.F32, 4)
        return Plan((launch("acme/conv_relu", jit, y.count, "in0", "in1", bias, "out0", numbers),))
