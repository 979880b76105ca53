"""A copy of a program that shares its data but no node, value or buffer."""

from __future__ import annotations

from dataclasses import replace

from clgraph.graph.buffer import Buffer
from clgraph.graph.program import Program, Value


def copy_program(program: Program) -> Program:
    """Return a program equal to *program*, at the same stage; shared buffers are shared in it too."""
    buffers: dict[Buffer, Buffer] = {}
    values: dict[Value, Value] = {}

    def copy_buffer(buffer: Buffer) -> Buffer:
        return buffers.setdefault(buffer, replace(buffer, conflicts={}))

    def copy(value: Value) -> Value:
        if value not in values:
            made = Value(
                value.name, value.layout, constant=value.constant, integers=value.integers, offset=value.offset
            )
            made.buffer = None if value.buffer is None else copy_buffer(value.buffer)
            values[value] = made
        return values[value]

    inputs = [copy(v) for v in program.inputs]
    nodes = []
    for node in program:
        made = replace(node, inputs=tuple(map(copy, node.inputs)), outputs=tuple(map(copy, node.outputs)))
        made.scratch = tuple(map(copy_buffer, node.scratch))
        nodes.append(made)
    result = Program(inputs, [(name, copy(v)) for name, v in program.outputs], nodes)
    result.stage, result.arenas, result.notes = program.stage, dict(program.arenas), dict(program.notes)
    for old, new in buffers.items():
        new.conflicts = {buffers[b]: None for b in old.conflicts if b in buffers}
    return result
