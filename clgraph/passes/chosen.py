"""The implementation chosen for a node: what binding, saving and reporting a planned program need of selection."""

from __future__ import annotations

from typing import Any

from clgraph.core.dtype import DType
from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node
from clgraph.graph.primitive import Primitive
from clgraph.selector.choose import Choice
from clgraph.selector.implementation import Implementation, Serves
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


class InPlace(Implementation[Any]):
    """Nothing to run: the node's results already lie in the memory of its inputs."""

    primitive = Primitive
    name = "in_place"
    serves = Serves(dtypes=frozenset(DType), formats=True, halos=True)
    general = False
    in_place = True

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        return 0.0

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        return Plan(())


def choice_of(node: Node) -> Choice:
    """Return the implementation chosen for *node*; a node without one is an ``UnsupportedError``."""
    if not isinstance(node.choice, Choice):
        raise UnsupportedError(f"node {node.name!r} has no implementation yet")
    return node.choice
