"""Who touches which memory, and when, where one node runs after the other: two positions a buffer.

The same as :mod:`clgraph.passes.memory.liveness` says of an in-order queue, in half of its time: members of families
are bound within milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable

from clgraph.core.frozen import mutable
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node
from clgraph.graph.program import Program


@mutable
class Spans:
    """The positions of the first and the last touch, which stand in the buffers of a program in its present order.

    Attributes:
        scratch: The buffers that hold no values.
        fed: What the caller writes before the run, so that it can take nothing's place: its first position is -1.
        returned: What the caller reads after the run, so that nothing may take its place; its last position is behind
            all nodes.
    """

    nodes: tuple[Node, ...]
    scratch: list[Buffer]
    fed: set[Buffer]
    returned: set[Buffer]

    @staticmethod
    def of(program: Program, held: Iterable[Buffer]) -> Spans:
        """Return the touches of *program*, whose values *held* holds; nodes that run nothing touch nothing."""
        nodes = tuple(program)
        end = len(nodes)
        for buffer in held:
            buffer.first, buffer.last = end, -1
            buffer.clear_conflicts()
        scratch: list[Buffer] = []
        for position, node in enumerate(nodes):
            if node.in_place:
                continue
            for value in node.inputs + node.outputs:
                if (touched := value.buffer) is not None and value.constant is None:
                    touched.last = position
                    if touched.first > position:
                        touched.first = position
            for buffer in node.scratch:
                buffer.first = buffer.last = position
                scratch.append(buffer)
        fed = {v.buffer for v in program.inputs if v.buffer is not None}
        returned = {v.buffer for _, v in program.outputs if v.constant is None and v.buffer is not None}
        for buffer in held:
            if buffer in fed or buffer.last < 0:
                buffer.first = -1
            if buffer in returned:
                buffer.last = end
        return Spans(nodes, scratch, fed, returned)

    def ends_at(self, buffer: Buffer, node: Node, position: int) -> bool:
        """Whether nothing but *node*, at *position*, which reads *buffer*, touches it there or later."""
        if buffer.last != position or buffer in self.fed or buffer in self.returned:
            return False
        return all(value.buffer is not buffer for value in node.outputs)

    def join(self, buffer: Buffer, other: Buffer) -> None:
        """Let *other*, which is written when *buffer* is read last, take its place."""
        buffer.first, buffer.last = min(buffer.first, other.first), max(buffer.last, other.last)
        if other in self.returned:
            self.returned.add(buffer)
