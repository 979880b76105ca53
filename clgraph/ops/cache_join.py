"""A cache that stays in memory, with new tokens written to it, as a tensor of all its places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import FLOATS, General, accesses, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View

NEW, LENGTHS, STATE, SHOWN = range(4)
"""The slots of the inputs."""


@primitive
@frozen
class CacheJoin(Primitive):
    """Write rows of new tokens into their cache; ``y`` is the cache, the newest row in all places behind it.

    Inputs: rows of new tokens ``[batch, heads, tokens, D]``; int32 lengths ``[1 + batch]`` and the state as
    :class:`CachedAttention` has them; bools ``[places]``, whose number is that of the cache's places (``lengths[0]``).
    Result: ``[batch, heads, places, D]``. What is computed of places behind the newest token is as finite as what is
    computed of that. Rows that the cache has no place for are left out.

    Attributes:
        at: Elements of all texts' caches in front of this one, for each place and text.
    """

    at: int

    kind: ClassVar[str] = "cache_join"

    @property
    def updates(self) -> frozenset[int]:
        return frozenset({STATE})

    def value_slots(self) -> tuple[int, ...]:
        return ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        new, lengths, state, shown = inputs
        if new.rank != 4 or not new.shape[2] or not new.dtype.floating:
            raise ShapeError(f"new rows of a cache are [batch, heads, tokens, D] of floats, not {new}")
        if state.rank != 1 or state.dtype not in FLOATS:
            raise ShapeError(f"the state {state} is not floats in a row")
        if lengths.shape != (1 + new.shape[0],) or lengths.dtype != DType.I32:
            raise ShapeError(f"lengths {lengths} are not int32 [{1 + new.shape[0]}]")
        if shown.rank != 1 or shown.shape[0] < new.shape[2]:
            raise ShapeError(f"{shown} does not say how many places a cache has, which are {new.shape[2]} at least")
        batch, heads, _, depth = new.shape
        return (new.with_shape((batch, heads, shown.shape[0], depth)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute the result; the cache in the third input is written to."""
        new, lengths, state, shown = inputs
        (batch, heads, tokens, depth), places = new.shape, shown.shape[0]
        cache = state[batch * places * self.at :][: batch * heads * places * depth].reshape(batch, heads, places, depth)
        y = np.empty(cache.shape, new.dtype)
        for text, first in enumerate(lengths[1:].tolist()):
            end = min(first + tokens, places)
            cache[text, :, first:end] = new[text, :, : end - first]
            y[text] = cache[text]
            y[text, :, end:] = y[text, :, end - 1, None]
        return (y,)


@implements(
    CacheJoin,
    name="cache_join.ref",
    serves=Serves(dtypes=FLOATS | {DType.I32, DType.BOOL}, mixed=True),
    general=True,
)
class CacheJoinRef(General[CacheJoin]):
    """A work-item an element of the result; those of new tokens are written to the cache as well."""

    @classmethod
    def plan(cls, q: Query[CacheJoin]) -> Plan:
        new, y = q.own[NEW], q.outputs[0]
        (_, heads, tokens, depth), places = new.shape, y.shape[2]
        numbers = table([heads, tokens, depth, places, q.primitive.at], View.of(new), View.of(y))
        elements = accesses(new.dtype) if new.dtype != DType.F32 else {}
        cache = accesses(q.own[STATE].dtype, "CACHE") if q.own[STATE].dtype != DType.F32 else {}
        jit = Jit().define(**elements, **cache)
        return Plan((launch("cache_join/cache_join_ref", jit, y.count, "in0", "in1", "in2", "out0", numbers),))
