"""Layer normalisation of plain rows of doubles on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.element_types import number_bits
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.layer_normalization import NormalizedRows, NormalizeRows
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.selector.descriptor import Descriptor, Long, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("normalize_doubles", library="rare", any_alignment=True)
class NormalizeDoublesDesc(NormalizedRows, Descriptor):
    """Fields as in ``normalize_doubles.cl``."""

    epsilon: Long


@implements(
    LayerNormalization,
    name="layer_normalization.doubles",
    serves=Serves(dtypes=frozenset({DType.F64}), kinds=frozenset({"cpu"})),
)
class NormalizeDoubles(NormalizeRows):
    """A row at a time, as of floats."""

    @classmethod
    def limits(cls, q: Query[LayerNormalization]) -> str | None:
        if "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        return count_refusal(q) or super().limits(q)

    @classmethod
    def vector_seconds(cls, q: Query[LayerNormalization]) -> float:
        """Return the time of 16 doubles, which are two vectors."""
        return 2 * super().vector_seconds(q)

    @classmethod
    def plan(cls, q: Query[LayerNormalization]) -> Plan:
        tickets, _, values = cls.fields(q)
        desc = NormalizeDoublesDesc(**values, epsilon=number_bits(q.primitive.epsilon, DType.F64))
        return Plan((Tile("normalize_doubles", desc, tickets),))
