"""Pairs of features turned by an angle each, as RotaryEmbedding does once its positions have been looked up."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, Primitive, primitive
from clgraph.selector.general import REALS, General, float_jit, launch, post_arguments, post_views, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class Rotation(Primitive):
    """Each pair (a, b) of a row's first features becomes (a cos - b sin, b cos + a sin); those behind stay.

    Inputs: x ``[..., D]``; cos and sin ``[..., pairs]`` of as many axes, which broadcast to all axes of x but the last.

    Attributes:
        interleaved: Pairs are neighbours, not of the first and the second half of what is turned.
    """

    interleaved: bool = False

    kind: ClassVar[str] = "rotation"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, cos, sin = inputs
        if cos.shape != sin.shape or cos.rank != x.rank or 2 * cos.shape[-1] > x.shape[-1]:
            raise ShapeError(
                f"angles {list(cos.shape)} and {list(sin.shape)} are not those of pairs in {list(x.shape)}"
            )
        if broadcast(cos.shape[:-1], x.shape[:-1]) != x.shape[:-1]:
            raise ShapeError(f"cos and sin {list(cos.shape)} do not broadcast to the rows of {list(x.shape)}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        exact, cos, sin = (a.astype(np.result_type(a.dtype, np.float32)) for a in inputs)
        size = 2 * cos.shape[-1]
        halves = (np.s_[..., 0:size:2], np.s_[..., 1:size:2])
        first, second = halves if self.interleaved else (np.s_[..., : size // 2], np.s_[..., size // 2 : size])
        y = exact.copy()
        y[first] = exact[first] * cos - exact[second] * sin
        y[second] = exact[second] * cos + exact[first] * sin
        return (y.astype(x.dtype),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, len(inputs)) if axes[-1] == len(axes) - 1 else None

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 3.0 * prod(inputs[0].shape)


def angle_pitches(angles: Layout, x: Layout) -> tuple[int, ...]:
    """Return the pitches of a table along the axes of the rows of *x*, 0 where it broadcasts."""
    rows = zip(angles.shape[:-1], angles.all_pitches, x.shape, strict=False)
    return tuple([0 if d == 1 and n != 1 else pitch for d, pitch, n in rows])


@implements(Rotation, name="rotation.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True)
class RotationRef(General[Rotation]):
    """One work-item an element, any rank."""

    @classmethod
    def plan(cls, q: Query[Rotation]) -> Plan:
        (x, cos, sin), (y,) = q.own, q.outputs
        views = [View(t.origin, (*angle_pitches(t, x), 0)) for t in (cos, sin)]
        s = space(y.shape, [View.of(y), View.of(x), *views, *post_views(q)], [range(y.rank - 1), [y.rank - 1]])
        pairs = [cos.shape[-1], int(q.primitive.interleaved), cos.all_pitches[-1], sin.all_pitches[-1]]
        numbers = table(s.dims, *s.views[:4], pairs)
        posts = post_arguments(q, s.views[4:], len(s.dims))
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("rotation/rotation_ref", jit, y.count, "in0", "in1", "in2", "out0", numbers, *posts),))
