"""Copies of programs and of their parts, which share data but no node, value or buffer."""

from __future__ import annotations

from dataclasses import field, replace

from clgraph.core.frozen import mutable
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program


@mutable
class Copier:
    """Copies nodes with all they have; what several of them share, a value or a buffer, their copies share too."""

    buffers: dict[Buffer, Buffer] = field(default_factory=dict)
    _values: dict[Value, Value] = field(default_factory=dict)

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the copy of *buffer*, in conflict with nothing."""
        if buffer not in self.buffers:
            self.buffers[buffer] = replace(buffer)
        return self.buffers[buffer]

    def value(self, value: Value) -> Value:
        """Return the copy of *value*, without producer and readers until a program holds it."""
        if value not in self._values:
            buffer = None if value.buffer is None else self.buffer(value.buffer)
            self._values[value] = replace(value, buffer=buffer)
        return self._values[value]

    def node(self, node: Node) -> Node:
        """Return a node like *node* on copies of its values and buffers."""
        made = replace(node, inputs=tuple(map(self.value, node.inputs)), outputs=tuple(map(self.value, node.outputs)))
        made.scratch = tuple(map(self.buffer, node.scratch))
        return made


def copy_program(program: Program) -> Program:
    """Return a program equal to *program*, at the same milestone."""
    copier = Copier()
    inputs, nodes = [copier.value(v) for v in program.inputs], [copier.node(n) for n in program]
    result = Program(inputs, [(name, copier.value(v)) for name, v in program.outputs], nodes)
    result.milestone, result.batch_slices = program.milestone, program.batch_slices
    result.arenas, result.notes = dict(program.arenas), dict(program.notes)
    for old, new in copier.buffers.items():
        for other in old.conflicts:
            if other in copier.buffers:
                new.add_conflict(copier.buffers[other])
    return result
