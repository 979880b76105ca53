"""Fill devices in order, each up to its memory budget. Answers ONNX Runtime's resource accounting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.passes.budgets import Budgets


def fill(program: Program, able: Mapping[Node, Sequence[str]], budgets: Budgets) -> dict[Node, str]:
    """Return the placement of each node: of those *able* to run it, in that order, the first that is not full.

    A device that a node went past takes no later one, so that what it has is one part of the model; but what only it
    can run counts from the beginning.
    """
    alive, constants = _alive(program), {name: dict[int, int]() for name in budgets.aims}
    most = dict.fromkeys(budgets.aims, 0)

    def after(node: Node, name: str) -> tuple[dict[int, int], int]:
        own = {id(v.constant): v.layout.nbytes for v in node.inputs if v.constant is not None}
        return constants[name] | own, max(most[name], alive[node])

    def take(node: Node, name: str) -> None:
        if name in budgets.aims:
            constants[name], most[name] = after(node, name)
            budgets.taken[name] = sum(constants[name].values()) + most[name]

    found: dict[Node, str] = {}
    for node in program:
        if len(able[node]) == 1:
            found[node] = able[node][0]
            take(node, found[node])
    for node in program:
        if node in found:
            continue
        for name in able[node]:
            if name in budgets.passed:
                continue
            if name in budgets.aims:
                held, peak = after(node, name)
                nbytes = sum(held.values()) + peak
                if nbytes > budgets.aims[name] and name != able[node][-1]:
                    budgets.passed[name] = nbytes
                    continue
            break
        found[node] = name
        take(node, name)
    return found


def _alive(program: Program) -> dict[Node, int]:
    """Return the bytes of all values that are needed when each node runs."""
    nodes = list(program)
    where = {node: number for number, node in enumerate(nodes)}
    results = {value for _, value in program.outputs}
    changes = [0] * (len(nodes) + 1)
    for value in program.values:
        if value.constant is None:
            last = max((where[n] for n in value.readers), default=-1)
            changes[0 if value.producer is None else where[value.producer]] += value.layout.nbytes
            changes[len(nodes) if value in results else last + 1] -= value.layout.nbytes
    return dict(zip(nodes, accumulate(changes), strict=False))
