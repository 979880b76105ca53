"""Fuse what could not follow a producer in front of its reader. clDNN fuses behind producers only."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from clgraph.graph.node import Fused, Node
from clgraph.graph.primitive import PRIMITIVES
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.fusing.gain import Gain, why_apart


class FusePreOperations(Pass):
    """Make elementwise work that stands alone a pre-operation of the one node that reads it as its first input.

    That is a scale, shift and activation behind a concat, say. Refused, with a note, as in prepare_primitive_fusing,
    and in front of a Resize that enlarges, which would compute it once for each element that it makes.
    """

    name: ClassVar[str] = "fuse_pre_operations"
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes, fused, gain = list[str](), 0, Gain(context)
        for node in reversed(tuple(program)):
            if node in program and node.primitive.elementwise:
                fused += _precede(program, gain, node, notes)
        self.note(program, dict.fromkeys(notes))
        return fused

    def describe(self, kind: str) -> str:
        if PRIMITIVES[kind].elementwise:
            return "elementwise: becomes a pre-operation of its only reader where it has as_post()"
        return "takes pre-operations that its implementations list"


def _precede(program: Program, gain: Gain, peer: Node, table: list[str]) -> bool:
    """Fuse *peer* in front of the one node that reads its result first, or note why not."""
    readers = peer.output.readers
    if len(readers) > 1:
        table.append(f"{peer.name}: in front of nothing: {len(readers)} nodes read its result")
    if len(readers) != 1 or len(peer.outputs) > 1:
        return False
    (into,) = readers
    if into.primitive.elementwise:
        return False
    if into.inputs[0] is not peer.output:
        table.append(f"{peer.name}: not in front of {into.name}: it is not what that reads first")
        return False
    shape = peer.output.layout.shape
    slot = next((i for i, v in enumerate(peer.inputs[: peer.arity]) if v.layout.shape == shape), 0)
    reason = _why_not_in_front(program, gain, peer, into, slot)
    if reason is None:
        table.append(f"{peer.name}: in front of {into.name}")
        program.fuse(peer, into, slot)
        return True
    table.append(f"{peer.name}: not in front of {into.name}: {reason}")
    return False


def _why_not_in_front(program: Program, gain: Gain, peer: Node, into: Node, slot: int) -> str | None:
    value, running = peer.output, peer.inputs[slot]
    if (why := why_apart(program, value, into, peer)) is not None:
        return why
    if running.constant is not None or running.layout.shape != value.layout.shape:
        return f"{running.name} has not the full shape of {value.layout}"
    if running.layout.dtype != value.layout.dtype or peer.primitive.as_post(slot) is None:
        return f"{peer.primitive} has no pre-operation for {running.layout}"
    if into.primitive.kind == "resize" and into.output.layout.count > running.layout.count:
        return f"it would be computed for each of {into.output.layout.count} elements, not of {running.layout.count}"
    q = gain.context.query(into)
    others = [i for i in range(len(peer.inputs)) if i != slot]
    place = {i: len(q.inputs) + n for n, i in enumerate(others)}
    steps = [Fused(peer.primitive, tuple(place[i] for i in others if i < peer.arity), slot, "pre")]
    steps += [Fused(f.primitive, tuple(place[i] for i in f.operands), f.slot, "pre") for f in peer.fused]
    inputs = (running.layout, *q.inputs[1:], *(peer.inputs[i].layout for i in others))
    constant = q.constant | {place[i] for i in others if peer.inputs[i].constant is not None}
    fused = replace(q, inputs=inputs, fused=(*steps, *q.fused), constant=frozenset(constant))
    return gain.refusal(into, q, peer, fused)
