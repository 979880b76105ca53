"""Move elementwise work into what makes its input. Answers clDNN's prepare_primitive_fusing."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from clgraph.graph.node import Fused, Node
from clgraph.graph.primitive import PRIMITIVES
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.fusing.gain import Gain, why_apart
from clgraph.passes.memory.sharing import sharing_proposals
from clgraph.selector.implementation import IMPLEMENTATIONS


class PreparePrimitiveFusing(Pass):
    """Make an activation or elementwise operator a post-operation of the node that makes its input.

    Of two such nodes it is the later one, so that the other operand is there in time. A fusion is refused when the
    result in between is read elsewhere (so no operand depends on the node over another path) or is a graph output, when
    annotations or placements differ, when the running value has not the result's full shape and type (but where all
    that is left of it is 8 bits), when no implementation serves it, when it would cost more than the two nodes apart,
    or when the node would have more than ``gain.MOST_FUSED`` operations. ``Program.notes`` lists what was fused and
    every refusal in words.
    """

    name: ClassVar[str] = "prepare_primitive_fusing"
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes, fused, gain = list[str](), 0, Gain(context)
        for node in program:
            if node.primitive.elementwise:
                fused += _follow(program, gain, node, notes)
        self.note(program, dict.fromkeys(notes))
        return fused

    def describe(self, kind: str) -> str:
        fuses = any(i.serves.fuses for i in IMPLEMENTATIONS.of(kind))
        takes = "takes post-operations that its implementations list" if fuses else "takes no post-operations"
        if not PRIMITIVES[kind].elementwise:
            return takes
        return f"elementwise: becomes a post-operation of its producer where it has as_post(); {takes}"


def _follow(program: Program, gain: Gain, peer: Node, table: list[str]) -> bool:
    """Fuse *peer* behind the later producer of its inputs, or note why not."""
    producers = [(program.position(v.producer), i) for i, v in enumerate(peer.inputs[: peer.arity]) if v.producer]
    reasons: list[str] = []
    for _, slot in sorted(producers, reverse=True):
        into = peer.inputs[slot].producer
        assert into is not None
        reason = _why_not_behind(program, gain, peer, slot, into)
        if reason is None:
            table.append(f"{peer.name}: behind {into.name}")
            program.fuse(peer, into)
            return True
        reasons.append(f"{peer.name}: not behind {into.name}: {reason}")
    table += reasons
    return False


def _why_not_behind(program: Program, gain: Gain, peer: Node, slot: int, into: Node) -> str | None:
    value = peer.inputs[slot]
    if value is not into.output or len(into.outputs) > 1:
        return "it has several results"
    others = [v for i, v in enumerate(peer.inputs) if i != slot]
    if (why := why_apart(program, value, peer, into)) is not None:
        return why
    rounded = peer.primitive.kind == "static_quantize"
    if value.layout.shape != peer.output.layout.shape or (
        value.layout.dtype != peer.output.layout.dtype and not rounded
    ):
        return f"{value.layout} is not yet the full result {peer.output.layout}"
    if peer.primitive.as_post(slot) is None:
        return f"{peer.primitive} has no post-operation for its input {slot}"
    q = gain.context.query(into)
    if sharing_proposals(program, into, q):
        return f"the parts of {into.name} can lie in one buffer, and it runs nothing then"
    extra = tuple(v.layout for v in others)
    operands = {i: len(q.inputs) + n for n, i in enumerate(i for i in range(len(peer.inputs)) if i != slot)}
    own = tuple(operands[i] for i in range(peer.arity) if i != slot)
    steps = [Fused(peer.primitive, own, slot)]
    steps += [Fused(f.primitive, tuple(operands[i] for i in f.operands), f.slot) for f in peer.fused]
    constant = q.constant | {operands[i] for i, v in enumerate(peer.inputs) if v.constant is not None and i != slot}
    fused = replace(q, inputs=q.inputs + extra, fused=(*q.fused, *steps), constant=frozenset(constant))
    if rounded:
        fused = replace(fused, outputs=(replace(q.outputs[0], dtype=peer.output.layout.dtype),))
    return gain.refusal(into, q, peer, fused)
