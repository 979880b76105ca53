"""Activations in front of a concat instead of behind it, where what makes the parts can take them."""

from __future__ import annotations

from dataclasses import replace

from clgraph.graph.node import Fused, Node
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.passes.base import Context
from clgraph.passes.rewriting import apart, read_outside
from clgraph.passes.selection import proposals


def activate_parts(program: Program, context: Context, concat: Node, table: list[str]) -> None:
    """Move the activations that alone read *concat*'s result to each of its inputs.

    A concat that runs nothing can take no operation, and a pass over the whole result costs more than none. Wants that
    every part is made for *concat* alone, by something that takes the activation as its last operation.
    """
    while (reader := _activation_behind(program, concat)) is not None:
        if (why := _why_not(program, context, concat, reader)) is not None:
            table.append(f"{reader.name}: not in front of {concat.name}: {why}")
            return
        for slot, value in enumerate(concat.inputs):
            made = program.insert(reader.primitive, [value], sources=[reader], before=concat)
            program.rewire(value, made.output, uses=[(concat, slot)])
        program.rewire(reader.output, concat.output)
        table.append(f"{reader.name}: in front of {concat.name}, on each of its parts")
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
            return f"{value.name} is no single result of a node"
        if len(value.uses) > 1 or read_outside(program, value, [concat]) is not None:
            return f"{value.name} is read elsewhere, too"
        if (why := apart([maker, reader])) is not None:
            return why
        q = context.query(maker)
        if not proposals(context, maker, replace(q, fused=(*q.fused, Fused(reader.primitive)))):
            return f"no implementation of {maker.primitive.kind} on {q.device.name} takes it"
    return None
