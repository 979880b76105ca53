"""Products of rows with the matrix of the expert that each has chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import REALS, General, float_jit, launch, post_arguments, post_views, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class ExpertMatMul(Primitive):
    """``y[r] = a[r] @ w[experts[r]]``, where rows of one expert stand together.

    Inputs: a ``[rows, K]``, w ``[experts, K, N]``, experts ``[rows]`` in ascending order, i32 or i64; a number outside
    of w means its nearest end. Result: y ``[rows, N]``.

    Attributes:
        transpose_b: Whether w is stored ``[experts, N, K]``.
    """

    transpose_b: bool = False

    kind: ClassVar[str] = "expert_matmul"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, w, experts = inputs
        if (a.rank, w.rank, experts.rank) != (2, 3, 1) or experts.dtype not in (DType.I32, DType.I64):
            raise ShapeError(f"requires a matrix, matrices and i32 or i64 numbers of these, not {a}, {w} and {experts}")
        depth, columns = w.shape[:0:-1] if self.transpose_b else w.shape[1:]
        if a.dtype != w.dtype or a.shape != (experts.shape[0], depth) or not w.shape[0]:
            raise ShapeError(f"{a} is not a row of {depth} elements for each of {experts}")
        return (a.with_shape((a.shape[0], columns)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, w, experts = inputs
        exact = np.result_type(a.dtype, np.float32)
        chosen = np.clip(experts, 0, w.shape[0] - 1)
        y = np.empty((a.shape[0], w.shape[1 if self.transpose_b else 2]), exact)
        for expert in np.unique(chosen):
            own = w[expert].astype(exact)
            y[chosen == expert] = a[chosen == expert].astype(exact) @ (own.T if self.transpose_b else own)
        return (y.astype(a.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * inputs[0].shape[1]


@implements(
    ExpertMatMul,
    name="expert_matmul.ref",
    serves=Serves(dtypes=REALS | {DType.I32, DType.I64}, mixed=True, fuses=FUSABLE),
    general=True,
)
class ExpertMatMulRef(General[ExpertMatMul]):
    """One work-item an output element."""

    @classmethod
    def plan(cls, q: Query[ExpertMatMul]) -> Plan:
        (a, w, experts), y = q.own, q.outputs[0]
        pitch, row, column = w.all_pitches
        if q.primitive.transpose_b:
            row, column = column, row
        views = [View.of(y), View(a.origin, (a.all_pitches[0], 0)), View(w.origin, (0, column))]
        numbers = View(experts.origin, (experts.all_pitches[0], 0))
        s = space(y.shape, [*views, numbers, *post_views(q)], [[0], [1]])
        rest = [a.shape[1], a.all_pitches[1], row, pitch, w.shape[0]]
        jit = float_jit(y.dtype, len(s.dims)).define(INDEX=experts.dtype)
        posts = post_arguments(q, s.views[4:], len(s.dims))
        numbers_of = table(s.dims, *s.views[:4], rest)
        return Plan(
            (launch("expert_matmul/expert_matmul_ref", jit, y.count, "in0", "in1", "in2", "out0", numbers_of, *posts),)
        )
