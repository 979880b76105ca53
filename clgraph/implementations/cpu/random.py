"""Numbers at random on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.ops.random import WORDS, Random, stream_word
from clgraph.selector.general import General, launch
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_COUNTERS = 256
"""Of a work-item."""

_SHARE = 0.2
"""Of the peak. An estimate."""

_SERVES = Serves(dtypes=frozenset({DType.F32, DType.U32}), kinds=frozenset({"cpu"}), mixed=True)


@implements(Random, name="random.rows", serves=_SERVES)
class RandomRows(General[Random]):
    """A work-item makes 1024 numbers, those of sixteen counters at a time."""

    @classmethod
    def further_limits(cls, q: Query[Random]) -> str | None:
        return None if q.outputs[0].is_dense_plain else "requires a result without gaps"

    @classmethod
    def cost(cls, q: Query[Random]) -> float:
        return roofline(q, _SHARE)

    @classmethod
    def plan(cls, q: Query[Random]) -> Plan:
        f, count = q.primitive, q.outputs[0].count
        arguments = ("in0", stream_word(f), "out0", count, f.first, f.second)
        jit = Jit().define(NORMAL=int(f.normal))
        return Plan((launch("random/random_rows", jit, -(-count // (WORDS * _COUNTERS)), *arguments),))
