"""The order of a graph's nodes, by the values that they read and make."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from clgraph.errors import ModelError
from clgraph.frontend.inline import Label
from clgraph.frontend.protobuf import onnx

Pair = tuple[onnx.NodeProto, Label]
"""A node and what it came from."""
_SHOWN = 3


def ordered(pairs: Sequence[Pair], reads: Sequence[Sequence[str]]) -> list[Pair]:
    """Return the nodes in an order in which each stands behind what it reads; the file's where that is one.

    Args:
        reads: What each node reads.

    Raises:
        ModelError: There is none.
    """
    maker = {name: i for i, (node, _) in enumerate(pairs) for name in node.output[:] if name}
    before = [{maker[name] for name in read if name in maker} for read in reads]
    readers: list[list[int]] = [[] for _ in pairs]
    for i, made_by in enumerate(before):
        for j in made_by:
            readers[j].append(i)
    waits = [len(made_by) for made_by in before]
    ready = [i for i, count in enumerate(waits) if not count]
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for reader in readers[i]:
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(pairs):
        cycle = some_of([pairs[i][1].name for i, count in enumerate(waits) if count])
        raise ModelError(f"the graph has a cycle among the nodes {cycle}")
    return [pairs[i] for i in order]


def reads_of(node: onnx.NodeProto) -> list[str]:
    """Return the names that *node* reads, those of its bodies in the graph around it included."""
    found: list[str] = node.input[:]
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            graph = attribute.g
            made = {t.name for t in graph.initializer} | {v.name for v in graph.input}
            made |= {name for inner in graph.node for name in inner.output}
            read = [n for inner in graph.node for n in reads_of(inner)] + [v.name for v in graph.output]
            found += [name for name in dict.fromkeys(read) if name and name not in made]
    return found


def some_of(names: Iterable[str]) -> str:
    """Return the first of *names* for a message, and how many more there are."""
    found = list(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(map(repr, found[:_SHOWN])) + more
