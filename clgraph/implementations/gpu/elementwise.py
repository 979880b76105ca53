"""Elementwise operators for GPUs: a vector of 4 or 8 elements a work-item, in any format of whole vectors."""

from __future__ import annotations

from typing import TypeVar

from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.vectors import same_format, vector_formats, vector_refusal
from clgraph.selector.general import General
from clgraph.selector.implementation import Formats, roofline
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query

P = TypeVar("P", bound=Primitive)


class Vectors(General[P]):
    """Whatever the format, each vector is read and written once."""

    blocked = True

    @classmethod
    def further_limits(cls, q: Query[P]) -> str | None:
        function = getattr(q.primitive, "function", "")
        if function not in post_codes():
            return f"has no {function} of floats"
        return vector_refusal(q, range(q.arity))

    @classmethod
    def formats(cls, q: Query[P]) -> tuple[Formats, ...]:
        rank = q.outputs[0].rank
        return same_format(q, (Format.plain(rank), *vector_formats(rank)))

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        return roofline(q, 0.2, 0.8)
