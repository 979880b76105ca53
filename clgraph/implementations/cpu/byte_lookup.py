"""Bytes as entries of a table, in blocks and in rows, on CPU devices with VNNI."""

from __future__ import annotations

from dataclasses import replace

from clgraph.implementations.cpu.byte_moves import (
    between_formats,
    between_refusal,
    between_seconds,
    in_rows,
    looked_up,
    rows_refusal,
)
from clgraph.implementations.cpu.byte_operands import BYTE_TILE
from clgraph.ops.byte_lookup import BYTES, ByteLookup
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_SERVES = replace(BYTE_TILE, dtypes=BYTES, fuses=frozenset())


@implements(ByteLookup, name="byte_lookup.fsv16", serves=_SERVES)
class ByteLookupFsv16(Implementation[ByteLookup]):
    """Blocks of bytes to the same."""

    @classmethod
    def limits(cls, q: Query[ByteLookup]) -> str | None:
        return between_refusal(q)

    @classmethod
    def formats(cls, q: Query[ByteLookup]) -> tuple[Formats, ...]:
        return between_formats(q)

    @classmethod
    def cost(cls, q: Query[ByteLookup]) -> float:
        return between_seconds(q)

    @classmethod
    def plan(cls, q: Query[ByteLookup]) -> Plan:
        return looked_up(q)


@implements(ByteLookup, name="byte_lookup.rows", serves=_SERVES)
class ByteLookupRows(Implementation[ByteLookup]):
    """Dense plain bytes to the same."""

    @classmethod
    def limits(cls, q: Query[ByteLookup]) -> str | None:
        return rows_refusal(q)

    @classmethod
    def cost(cls, q: Query[ByteLookup]) -> float:
        return between_seconds(q)

    @classmethod
    def plan(cls, q: Query[ByteLookup]) -> Plan:
        return looked_up(in_rows(q))
