"""Local response normalisation across channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import (
    REALS,
    General,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
    words,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class Lrn(Primitive):
    """``y[c] = x[c] / (bias + alpha / size * sum of x[d]^2) ^ beta`` over the *size* channels d around c.

    An even *size* takes one channel more behind c than before it.
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    kind: ClassVar[str] = "lrn"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        if inputs[0].rank < 2 or self.size < 1:
            raise ShapeError(f"{self} requires x[N,C,...], not {inputs[0]}")
        return (inputs[0].plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        exact = x.astype(np.result_type(x.dtype, np.float32))
        # What lies behind the first and the last channel is nothing, however far the window reaches.
        before, after = (min(reach, x.shape[1]) for reach in ((self.size - 1) // 2, self.size // 2))
        squares = np.pad(exact * exact, ((0, 0), (before, after), *((0, 0) for _ in x.shape[2:])))
        total = sum(squares[:, i : i + x.shape[1]] for i in range(before + after + 1))
        return ((exact / (self.bias + self.alpha / self.size * total) ** self.beta).astype(x.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return outputs[0].count * (2.0 * self.size + 20)


@onnx("LRN", since=(1, 13))
def import_lrn(node: OnnxNode) -> Primitive:
    return Lrn(
        node.attribute("size", 1),
        node.attribute("alpha", 1e-4),
        node.attribute("beta", 0.75),
        node.attribute("bias", 1.0),
    )


@implements(Lrn, name="lrn.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True)
class LrnRef(General[Lrn]):
    """One work-item an element, any rank."""

    @classmethod
    def plan(cls, q: Query[Lrn]) -> Plan:
        (y,), f = q.outputs, q.primitive
        reach = [(f.size - 1) // 2, f.size // 2]
        parameters = [word for value in (f.alpha / f.size, f.beta, f.bias) for word in words(value, y.dtype)]
        arguments = ("in0", "out0", table(y.shape, View.of(y), View.of(q.inputs[0]), reach, parameters))
        posts = post_arguments(q, post_views(q), y.rank)
        return Plan((launch("lrn/lrn_ref", float_jit(y.dtype, y.rank), y.count, *arguments, *posts),))
