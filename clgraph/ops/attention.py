"""Attention: what rows of queries find among keys, as a mixture of the keys' values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
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
from clgraph.selector.views import Space, View, space


@primitive
@frozen
class Attention(Primitive):
    """``y = softmax(scale * q k + bias) v`` for q[..., M, D], k[..., D, N], v[..., N, E], bias cast to [..., M, N].

    The axes in front are those of q for all three; the bias may be left out (Vaswani et al. 2017, scaled dot-product
    attention).

    Attributes:
        by_key: k is [..., N, D].
    """

    scale: float = 1.0
    by_key: bool = False

    kind: ClassVar[str] = "attention"
    holds_sizes: ClassVar[bool] = False
    sooner_apart: ClassVar[bool] = True

    def sizes(self, inputs: Sequence[Layout]) -> tuple[int, int, int, int]:
        """Return M, N, D and E."""
        queries, values = inputs[0].shape, inputs[2].shape
        return queries[-2], values[-2], queries[-1], values[-1]

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        q, k, v = inputs[:3]
        if min(x.rank for x in (q, k, v)) < 2 or not q.dtype.floating or len({q.dtype, k.dtype, v.dtype}) > 1:
            raise ShapeError(f"attention requires matrices of one floating type, not {q}, {k} and {v}")
        m, n, d, e = self.sizes(inputs)
        if k.shape != (*q.shape[:-2], *((n, d) if self.by_key else (d, n))) or v.shape[:-2] != q.shape[:-2]:
            raise ShapeError(f"keys {k} and values {v} do not fit queries {q}")
        if len(inputs) > 3:
            scores = (*q.shape[:-2], m, n)
            own = inputs[3].shape
            if len(own) > len(scores) or any(a not in (1, b) for a, b in zip(own[::-1], scores[::-1], strict=False)):
                raise ShapeError(f"bias {inputs[3]} cannot be added to scores of shape {list(scores)}")
        return (q.with_shape((*q.shape[:-1], e)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        exact = np.result_type(inputs[0].dtype, np.float32)
        q, k, v = (x.astype(exact) for x in inputs[:3])
        scores = np.matmul(q, k.swapaxes(-1, -2) if self.by_key else k) * exact.type(self.scale)
        if len(inputs) > 3:
            scores = scores + inputs[3].astype(exact)
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return (np.matmul(weights / weights.sum(-1, keepdims=True), v).astype(inputs[0].dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        m, n, d, e = self.sizes(inputs)
        return (2.0 * (d + e) + 20) * n * m * (inputs[0].count // max(1, m * d))


def bias_view(q: Query[Attention]) -> View:
    """Return the bias as a tensor of one element a score; all pitches are 0 without one."""
    (y,) = q.outputs
    scores = (*y.shape[:-1], q.primitive.sizes(q.own)[1])
    return View.of(q.own[3], scores) if q.arity > 3 else View(0, (0,) * y.rank)


def attention_space(q: Query[Attention], groups: Sequence[Sequence[int]]) -> Space:
    """Return the axes of the result, merged within *groups*.

    Its views: the result, the first element of each query, the first key, the first value, the bias of the first key,
    operands of fused operations.
    """
    (y,), (queries, keys, values), bias = q.outputs, q.own[:3], bias_view(q)
    views = [
        View.of(y),
        View(queries.origin, (*queries.all_pitches[:-1], 0)),
        View(keys.origin, (*keys.all_pitches[:-2], 0, 0)),
        View(values.origin, (*values.all_pitches[:-2], 0, values.all_pitches[-1])),
        View(bias.origin, (*bias.pitches[:-1], 0)),
        *post_views(q),
    ]
    return space(y.shape, views, groups)


@implements(Attention, name="attention.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True)
class AttentionRef(General[Attention]):
    """One work-item a query, any rank; the scores are computed again for each 16 elements of the result."""

    @classmethod
    def plan(cls, q: Query[Attention]) -> Plan:
        (y,), p = q.outputs, q.primitive
        queries, keys, values = q.own[:3]
        _, n, d, e = p.sizes(q.own)
        key, part = (-2, -1) if p.by_key else (-1, -2)
        s = attention_space(q, [range(y.rank - 1), [y.rank - 1]])
        rows, _ = s.counts
        numbers = table(
            s.dims,
            *s.views[:5],
            [s.groups[0], n, d, e, queries.all_pitches[-1], keys.all_pitches[part], keys.all_pitches[key]],
            [values.all_pitches[-2], bias_view(q).pitches[-1], int(q.arity > 3), *words(p.scale, y.dtype)],
        )
        arguments = ("in0", "in1", "in2", q.role(3), "out0", numbers)
        posts = post_arguments(q, s.views[5:], len(s.dims))
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("attention/attention_ref", jit, rows if e else 0, *arguments, *posts),))
