"""Move activations from behind a concat to in front of it. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from clgraph.graph.node import Fused, Node
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import apart, read_outside
from clgraph.passes.selection import proposals


class HoistActivations(Pass):
    """Apply the activations that alone read a concat's result to each of its inputs.

    A concat that runs nothing can take no operation, and a pass over the whole result costs more than none. Wants that
    every input is made for the concat alone, by something that takes the activation as its last operation.
    """

    name: ClassVar[str] = "hoist_activations"
    handles: ClassVar[Mapping[str, str]] = {
        "activation": "moves to the inputs of the concat that it follows",
        "concat": "activations behind it move to its inputs",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes, moved = list[str](), 0
        for concat in program:
            while isinstance(concat.primitive, Concat) and (reader := _activation_behind(program, concat)) is not None:
                if (why := _why_not(program, context, concat, reader)) is not None:
                    notes.append(f"{reader.name}: not in front of {concat.name}: {why}")
                    break
                _hoist(program, concat, reader)
                notes.append(f"{reader.name}: in front of {concat.name}, on each of its inputs")
                moved += 1
        self.note(program, notes)
        return moved


def _hoist(program: Program, concat: Node, reader: Node) -> None:
    for slot, value in enumerate(concat.inputs):
        made = program.insert(reader.primitive, [value], sources=[reader], before=concat)
        program.rewire(value, made.output, uses=[(concat, slot)])
    program.rewire(reader.output, concat.output)
    concat.output.name = reader.output.name
    program.erase(reader)


def _activation_behind(program: Program, concat: Node) -> Node | None:
    readers = concat.output.readers
    if len(readers) != 1 or program.is_output(concat.output):
        return None
    alone = isinstance(readers[0].primitive, Activation) and not readers[0].fused
    return readers[0] if alone else None


def _why_not(program: Program, context: Context, concat: Node, reader: Node) -> str | None:
    if (why := apart([concat, reader])) is not None:
        return why
    for value in concat.inputs:
        maker = value.producer
        if maker is None or len(maker.outputs) > 1:
            return f"{value.name} is not a single result of a node"
        if value.has_many_uses or read_outside(program, value, [concat]) is not None:
            return f"{value.name} is read elsewhere, too"
        if (why := apart([maker, reader])) is not None:
            return why
        q = context.query(maker)
        if not proposals(context, maker, replace(q, fused=(*q.fused, Fused(reader.primitive)))):
            return f"no implementation of {maker.primitive.kind} on {q.device.name} takes it"
    return None
