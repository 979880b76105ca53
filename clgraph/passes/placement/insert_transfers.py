"""Copy values wherever the program crosses from one placement to another. clDNN has one device only."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.reorder import Reorder
from clgraph.ops.transfer import Transfer
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import bypass


class InsertTransfers(Pass):
    """Insert one transfer for each value and each other placement that reads it, and order the nodes for overlap.

    A transfer belongs to the part that reads it. Graph inputs live with their first reader. A queue returns before its
    work is done, a transfer does not: nodes of other devices that can start are put in front of it, and those of the
    device that it waits for behind it. ``Program.notes`` has the bytes of every cut.
    """

    name: ClassVar[str] = "insert_transfers"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        inserted = _insert(program)
        if inserted:
            program.reorder(overlapping(list(program)))
        note_transfers(program)
        return inserted

    def describe(self, kind: str) -> str:
        return "reads through a transfer what another device makes"


def carry_again(program: Program) -> None:
    """Bring the transfers into line with placements that have changed: superfluous ones go, missing ones come."""
    for node in program:
        for slot, value in enumerate(node.inputs):
            maker = value.producer
            if maker is not None and isinstance(maker.primitive, Transfer) and maker.placement != _needs(node):
                program.rewire(value, maker.inputs[0], uses=((node, slot),))
    for node in program:
        if isinstance(node.primitive, Transfer):
            _retarget(program, node)
    _insert(program)
    note_transfers(program)


def note_transfers(program: Program) -> None:
    """Leave in the notes how many transfers there are, and the bytes of every cut."""
    program.notes.pop(InsertTransfers.name, None)
    moved: Counter[tuple[str, str]] = Counter()
    transfers = [n for n in program if isinstance(n.primitive, Transfer)]
    for node in transfers:
        if isinstance(node.primitive, Transfer):
            moved[node.primitive.source, node.placement or ""] += node.inputs[0].layout.nbytes
    if transfers:
        cuts = ", ".join(f"{source} to {target} {nbytes} bytes" for (source, target), nbytes in moved.items())
        program.notes[InsertTransfers.name] = f"{len(transfers)} transfers: {cuts}"


def uncarried(program: Program) -> list[str]:
    """Say which nodes read what is on another device than theirs, and transfers what is not where they read."""
    crossing = [(value, _home(value)) for value in program.values if value.constant is None and value.uses]
    return [
        f"node {n.name!r} reads {value.name!r} on {_needs(n)}: it is on {home}"
        for value, home in crossing
        for n in value.readers
        if _needs(n) != home
    ]


def _needs(node: Node) -> str:
    """Return where *node* reads."""
    return node.primitive.source if isinstance(node.primitive, Transfer) else node.placement or ""


def _home(value: Value) -> str:
    """Return where *value*, which has a producer or readers, is: a graph input with its first reader that computes."""
    if value.producer is not None:
        return value.producer.placement or ""
    computing = (n for n, _ in value.uses if not isinstance(n.primitive, Transfer))
    return _needs(next(computing, None) or value.readers[0])


def _insert(program: Program) -> int:
    """Insert the transfers that are missing; return how many."""
    inserted = 0
    for value in program.values:
        if value.constant is not None or not value.uses:
            continue
        home = _home(value)
        away: dict[str, list[tuple[Node, int]]] = {}
        for node, slot in value.uses:
            if _needs(node) != home:
                away.setdefault(_needs(node), []).append((node, slot))
        for placement, uses in away.items():
            first = min((node for node, _ in uses), key=program.position)
            made = _transfer(program, value, placement, first)
            if made is None:
                made = program.insert(Transfer(home), [value], sources=[first], before=first)
                inserted += 1
            program.rewire(value, made.output, uses=uses)
            if any(node.in_place for node, _ in uses):
                # What runs nothing lies where a graph input did, which is elsewhere by now: with its copy, then.
                made.output.buffer, made.output.offset = value.buffer, value.offset
                value.buffer, value.offset = None, 0
    return inserted


def _transfer(program: Program, value: Value, placement: str, first: Node) -> Node | None:
    """Return the transfer of *value* to *placement* that there is in front of *first* already."""
    there = (n for n in value.readers if isinstance(n.primitive, Transfer) and n.placement == placement)
    return next((n for n in there if program.position(n) < program.position(first)), None)


def _retarget(program: Program, node: Node) -> None:
    """Let the transfer *node* read where its input is; where nothing crosses any more, remove it or lay out anew."""
    source, result = node.inputs[0], node.output
    home = _home(source)
    if not result.uses and not program.is_output(result):
        program.erase(node)
    elif home != node.placement:
        if home != _needs(node):
            node.primitive, node.choice = Transfer(home), None
    elif source.layout != result.layout or result.buffer is not None or not bypass(program, node):
        node.primitive, node.choice = Reorder(result.layout.dtype, result.layout.format, result.layout.halo), None


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
