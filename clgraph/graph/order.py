"""Execution order: a sequence of nodes with positions by bisection, and topological sorting."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from clgraph.errors import ProgramError
from clgraph.graph.node import Node

_GAP = 1 << 60


class Order:
    """Nodes in their order of execution, in which a pass may ask for and edit any place at a small cost.

    Each node has a label, a number that grows along the order, so that its position is found by bisection. A new node
    gets the middle between its neighbours' labels; where there is none, all are numbered anew, ``_GAP`` apart. Labels
    are made when they are first asked for: nobody edits the program of a member of a family.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._is_numbered = True
        self._labels: dict[int, int] = {}
        """The label of each node, by its identity."""
        self._keys: list[int] = []
        """The labels of the nodes, in their order, for bisection without a call for each step."""

    def _number(self) -> None:
        self._keys = [i * _GAP for i in range(len(self.nodes))]
        self._labels = {id(node): label for node, label in zip(self.nodes, self._keys, strict=True)}
        self._is_numbered = True

    def __contains__(self, node: object) -> bool:
        if not self._is_numbered:
            self._number()
        return id(node) in self._labels

    def position(self, node: Node) -> int:
        """Return the place of *node*; raises ``ProgramError`` where it is not in the order."""
        if node not in self:
            raise ProgramError(f"{node.name} is not a node of the program")
        return bisect_left(self._keys, self._labels[id(node)])

    def insert(self, position: int, node: Node) -> None:
        """Put *node* in front of the one at *position*, or behind all."""
        if not self._is_numbered:
            self._number()
        before, after = self._gap(position)
        if after - before < 2:
            self._number()
            before, after = self._gap(position)
        label = (before + after) // 2
        self._labels[id(node)] = label
        self.nodes.insert(position, node)
        self._keys.insert(position, label)

    def remove(self, node: Node) -> None:
        """Take *node* out."""
        position = self.position(node)
        del self.nodes[position], self._keys[position]
        del self._labels[id(node)]

    def replace(self, nodes: Iterable[Node]) -> None:
        """Hold *nodes*, in this order, in place of those there were."""
        self.nodes, self._is_numbered = list(nodes), False

    def _gap(self, position: int) -> tuple[int, int]:
        """Return the labels between which a node at *position* gets its own."""
        before = self._keys[position - 1] if position else None
        after = self._keys[position] if position < len(self._keys) else (before or 0) + 2 * _GAP
        return after - 2 * _GAP if before is None else before, after


def topological(nodes: Sequence[Node]) -> list[Node]:
    """Return *nodes* in a topological order: the one they have, where that is one already.

    Of the nodes whose inputs are there the one that stood first follows (Kahn, "Topological sorting of large networks",
    1962, with a heap).

    Raises:
        ProgramError: The graph has a cycle.
    """
    from heapq import heappop, heappush

    sources = [{id(v.producer) for v in node.inputs if v.producer is not None} for node in nodes]
    readers: dict[int, list[int]] = {}
    for i, made_by in enumerate(sources):
        for producer in made_by:
            readers.setdefault(producer, []).append(i)
    missing = [len(made_by) for made_by in sources]
    ready = [i for i, count in enumerate(missing) if not count]
    order: list[Node] = []
    while ready:
        node = nodes[heappop(ready)]
        order.append(node)
        for i in readers.get(id(node), ()):
            missing[i] -= 1
            if not missing[i]:
                heappush(ready, i)
    if len(order) < len(nodes):
        late = [nodes[i].name for i, count in enumerate(missing) if count]
        raise ProgramError(f"a cycle runs through {', '.join(late[:5])}")
    return order
