"""Copy values wherever the program crosses from one placement to another. clDNN has one device only."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program, Stage
from clgraph.ops.transfer import Transfer
from clgraph.passes.base import Context, Pass


class InsertTransfers(Pass):
    """Insert one transfer for each value and each other placement that reads it, and order the nodes for overlap.

    A transfer belongs to the part that reads it. Graph inputs live with their first reader. A queue returns before its
    work is done, a transfer does not: nodes of other devices that can start are put in front of it, and those of the
    device that it waits for behind it. ``Program.notes`` has the bytes of every cut.
    """

    name: ClassVar[str] = "insert_transfers"
    required: ClassVar[bool] = True
    needs: ClassVar[Stage] = Stage.PLACED

    def run(self, program: Program, context: Context) -> int:
        moved: Counter[tuple[str, str]] = Counter()
        inserted = 0
        for value in program.values:
            if value.constant is not None or not value.uses:
                continue
            home = (value.producer or value.readers[0]).placement or ""
            away: dict[str, list[tuple[Node, int]]] = {}
            for node, slot in value.uses:
                if node.placement != home and not isinstance(node.primitive, Transfer):
                    away.setdefault(node.placement or "", []).append((node, slot))
            for placement, uses in away.items():
                _carry(program, value, home, uses)
                moved[home, placement] += value.layout.nbytes
                inserted += 1
        if inserted:
            program.reorder(overlapping(list(program)))
            cuts = ", ".join(f"{source} to {target} {nbytes} bytes" for (source, target), nbytes in moved.items())
            program.notes[self.name] = f"{inserted} transfers: {cuts}"
        return inserted

    def describe(self, kind: str) -> str:
        return "reads through a transfer what another device makes"


def _carry(program: Program, value: Value, home: str, uses: list[tuple[Node, int]]) -> None:
    first = min((node for node, _ in uses), key=program.position)
    made = program.insert(Transfer(home), [value], sources=[first], before=first)
    program.rewire(value, made.output, uses=uses)


def uncarried(program: Program) -> list[str]:
    """Say which nodes read what is on another device than theirs, and transfers what is not where they read."""
    found = []
    for value in program.values:
        needs = {n: n.primitive.source if isinstance(n.primitive, Transfer) else n.placement for n in value.readers}
        if value.constant is None and needs:
            home = next(iter(needs.values())) if value.producer is None else value.producer.placement
            found += [
                f"node {n.name!r} reads {value.name!r} on {p}: it is on {home}" for n, p in needs.items() if p != home
            ]
    return found


def overlapping(nodes: list[Node]) -> list[Node]:
    """Return *nodes* in a topological order in which a transfer holds up as little as possible."""
    waiting, done, order = list(nodes), set[int](), list[Node]()
    while waiting:
        ready = [n for n in waiting if all(v.producer is None or id(v.producer) in done for v in n.inputs)]
        transfers = [n for n in ready if isinstance(n.primitive, Transfer)]
        early = next((n for n in transfers if n.inputs[0].producer is None), None)
        waited_for = {n.primitive.source for n in transfers if isinstance(n.primitive, Transfer)}
        free = (n for n in ready if n not in transfers and n.placement not in waited_for)
        node = early or next(free, None) or (transfers or ready)[0]
        order.append(node)
        done.add(id(node))
        waiting.remove(node)
    return order
