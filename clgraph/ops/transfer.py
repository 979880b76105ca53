"""The same tensor on another device; it stands wherever a program crosses from one placement to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.implementation import Formats, Implementation, Serves, implements
from clgraph.selector.plan import Carry, Plan
from clgraph.selector.query import Query

BYTES_PER_SECOND, SECONDS = 1e10, 5e-5
"""Rough figures of a copy through the host's memory, for estimates."""


@primitive
@frozen
class Transfer(Primitive):
    """``y = x``, on the placement of the node.

    Attributes:
        source: The placement that ``x`` comes from.
    """

    source: str

    kind: ClassVar[str] = "transfer"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (replace(inputs[0], halo=(), pitches=()),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].copy(),)


def transfer_seconds(nbytes: int) -> float:
    """Estimate the seconds that *nbytes* bytes take from one device to another."""
    return SECONDS + nbytes / BYTES_PER_SECOND


@implements(
    Transfer,
    name="transfer.host",
    serves=Serves(dtypes=frozenset(DType), formats=True, halos=True),
    general=True,
)
class TransferHost(Implementation[Transfer]):
    """The host reads from one queue and writes to the other; the format stays, so that either side may convert."""

    @classmethod
    def limits(cls, q: Query[Transfer]) -> str | None:
        (x,), (y,) = q.inputs, q.outputs
        return None if x.format == y.format else "keeps the format"

    @classmethod
    def formats(cls, q: Query[Transfer]) -> tuple[Formats, ...]:
        rank = q.outputs[0].rank
        wanted = [Format.plain(rank), *([feature_blocked(rank)] if rank > 2 else [])]
        return tuple(Formats((f,), (f,)) for f in wanted)

    @classmethod
    def cost(cls, q: Query[Transfer]) -> float:
        return transfer_seconds(q.outputs[0].nbytes)

    @classmethod
    def plan(cls, q: Query[Transfer]) -> Plan:
        return Plan((Carry(),))
