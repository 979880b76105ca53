"""Subtractions that are spelled as the addition of a negation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import apart, read_outside, substitute

NEGATION, ADDITION = Activation("neg"), Eltwise("add")


@dataclass(frozen=True)
class FuseNegation(Pass):
    """Replace ``x + (-y)`` by ``x - y``, which has the same bits."""

    name: ClassVar[str] = "fuse_negation"
    handles: ClassVar[Mapping[str, str]] = {
        "activation": "a negation is fused into the addition that reads it",
        "eltwise": "an addition that reads a negation becomes a subtraction",
    }

    def run(self, program: Program, context: Context) -> int:
        found = {node: slot for node in program if (slot := _negated(node)) is not None}
        refused = {}
        for node, slot in found.items():
            negation, x = node.inputs[slot].producer, node.inputs[1 - slot]
            assert negation is not None
            nodes = (negation, node)
            if why := apart(nodes) or read_outside(program, negation.output, nodes):
                refused[node.name] = why
            else:
                substitute(program, nodes, Eltwise("sub"), [x, negation.inputs[0]], named=node)
        self.note(program, [f"{name}: {why}" for name, why in refused.items()])
        return len(found) - len(refused)


def _negated(node: Node) -> int | None:
    """Return the input of an addition that a negation makes and the other one does not, or ``None``."""
    if node.primitive != ADDITION or node.fused or node.inputs[0] is node.inputs[1]:
        return None
    for slot in (1, 0):
        producer = node.inputs[slot].producer
        if producer is not None and producer.primitive == NEGATION and not producer.fused:
            return slot
    return None
