"""Layer normalisation of plain rows of halves on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.layer_normalization import NormalizeRows, NormalizeRowsDesc
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.selector.descriptor import Int, descriptor
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_LONGEST = 1 << 14
"""Elements of a row, which lies in scratch as floats with its scale and bias."""
_HELD = 512
"""Elements of the rows that are converted together; of longer rows one."""


@descriptor("normalize_halves", library="rare", any_alignment=True, made_of="normalize_rows", HALVES=1)
class NormalizeHalvesDesc(NormalizeRowsDesc):
    """The same of halves, some rows at a time as floats."""

    held: Int


@implements(
    LayerNormalization,
    name="layer_normalization.halves",
    serves=Serves(dtypes=frozenset({DType.F16}), kinds=frozenset({"cpu"})),
)
class NormalizeHalves(NormalizeRows):
    """A row at a time, made floats and rounded in scratch, of short rows with others."""

    @classmethod
    def limits(cls, q: Query[LayerNormalization]) -> str | None:
        if cls.width(q) > _LONGEST:
            return f"serves rows of at most {_LONGEST} elements"
        return super().limits(q)

    @classmethod
    def vector_seconds(cls, q: Query[LayerNormalization]) -> float:
        """Return the time of 16 halves, which are converted twice."""
        return super().vector_seconds(q) + 2 * q.device.costs.unit("copy.vector")

    @classmethod
    def plan(cls, q: Query[LayerNormalization]) -> Plan:
        tickets, _, values = cls.fields(q)
        held = max(1, _HELD // cls.width(q))
        desc = NormalizeHalvesDesc(**values, epsilon=q.primitive.epsilon, held=held)
        scratch = 4 * (held * cls.width(q) + 2 * desc.width)
        return Plan((Tile("normalize_halves", desc, tickets, scratch=scratch),))
