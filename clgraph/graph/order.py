"""Orders of execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clgraph.errors import ProgramError

if TYPE_CHECKING:
    from clgraph.graph.program import Node


def topological(nodes: Sequence[Node]) -> list[Node]:
    """Return *nodes* in a topological order: the one they have, where that is one already.

    Raises:
        ProgramError: The graph has a cycle.
    """
    done: set[int] = set()
    order: list[Node] = []
    waiting = list(nodes)
    while waiting:
        later = []
        for node in waiting:
            if all(v.producer is None or id(v.producer) in done for v in node.inputs):
                done.add(id(node))
                order.append(node)
            else:
                later.append(node)
        if len(later) == len(waiting):
            raise ProgramError(f"a cycle runs through {', '.join(n.name for n in later[:5])}")
        waiting = later
    return order
