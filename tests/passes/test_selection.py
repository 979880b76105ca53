"""Proposals: what passes are told of the implementations of a problem."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.passes.base import Context
from clgraph.passes.selection import proposals
from clgraph.selector.implementation import IMPLEMENTATIONS, Formats, Implementation, Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@frozen
class Probe(Primitive):
    kind: ClassVar[str] = "selection_probe"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (inputs[0].plain(),)


@pytest.fixture
def estimated() -> Iterator[list[str]]:
    """Implementations of a general and two special kinds; gives the names of those that are estimated."""
    saved, found = IMPLEMENTATIONS.snapshot(), list[str]()

    def add(name: str, seconds: float, general: bool = False) -> None:
        @implements(Probe, name=name, serves=Serves(dtypes=frozenset({DType.F32})), general=general)
        class One(Implementation[Probe]):
            @classmethod
            def limits(cls, q: Query[Probe]) -> str | None:
                return "takes no batch" if q.inputs[0].shape[0] > 1 and not cls.general else None

            @classmethod
            def cost(cls, q: Query[Any]) -> float:
                found.append(cls.name)
                return seconds

            @classmethod
            def plan(cls, q: Query[Probe]) -> Plan:
                return Plan(())

    # Called before the others: what is skipped is not what comes first.
    add("selection_probe.a_general", 1e-9, general=True)
    add("selection_probe.fast", 1e-6)
    add("selection_probe.slow", 1e-3)
    yield found
    IMPLEMENTATIONS.restore(saved)


def _proposed(batch: int) -> list[str]:
    x, y = (Value(name, Layout(DType.F32, (batch, 8))) for name in "xy")
    found = proposals(Context(), Node("probe", Probe(), (x,), (y,), 1))
    return [p.implementation.name for p in found]


def test_general_implementations_are_not_estimated_where_a_special_one_serves(estimated: list[str]) -> None:
    assert _proposed(1) == ["selection_probe.fast", "selection_probe.slow"]
    assert sorted(estimated) == ["selection_probe.fast", "selection_probe.slow"]


def test_general_implementations_are_proposed_where_no_special_one_serves(estimated: list[str]) -> None:
    assert _proposed(2) == ["selection_probe.a_general"]
    assert estimated == ["selection_probe.a_general"]


def test_what_prefers_the_same_formats_is_asked_about_one_problem(estimated: list[str]) -> None:
    blocked = Format((0, 1), ((1, 16),))
    for name in ("selection_probe.here", "selection_probe.there"):

        @implements(Probe, name=name, serves=Serves(dtypes=frozenset({DType.F32}), formats=True))
        class Blocked(Implementation[Probe]):
            @classmethod
            def formats(cls, q: Query[Any]) -> tuple[Formats, ...]:
                return (Formats((blocked,), (blocked,)),)

            @classmethod
            def plan(cls, q: Query[Probe]) -> Plan:
                return Plan(())

    x, y = (Value(name, Layout(DType.F32, (1, 32))) for name in "xy")
    found = proposals(Context(), Node("probe", Probe(), (x,), (y,), 1))
    of_both = [p.query for p in found if p.query.inputs[0].format == blocked]
    assert len(of_both) == 2
    assert of_both[0] is of_both[1]
