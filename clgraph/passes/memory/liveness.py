"""Who touches which memory, and when: the one liveness rule of all memory passes.

A buffer A may be reused for B only when every real reader and writer of A comes before every writer of B: in the
execution order for an in-order queue, as a strict ancestor for an out-of-order one. An output of the graph is read
after everything. The rule is about buffers, never about nodes: values that share memory are one buffer here. For an
in-order queue the first and the last position say it all (:mod:`clgraph.passes.memory.spans`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from clgraph.core.frozen import mutable
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program


@mutable
class Touch:
    """The positions, in the execution order, that write and read one buffer; bit i of a mask stands for position i.

    Attributes:
        output: Whether the caller reads it after the run, so that nothing may take its place.
        fed: Whether the caller writes it before the run, so that it can take nothing's place.
    """

    writers: int = 0
    readers: int = 0
    output: bool = False
    fed: bool = False

    @property
    def all(self) -> int:
        """Everything that touches the buffer."""
        return self.writers | self.readers

    def join(self, other: Touch) -> None:
        """Add what touches *other*, which takes the same place."""
        self.writers |= other.writers
        self.readers |= other.readers
        self.output |= other.output

    def first(self) -> int:
        """Return the position of the first touch; -1 when the caller writes it."""
        every = self.writers | self.readers
        return -1 if self.fed or not every else (every & -every).bit_length() - 1

    def last(self, end: int) -> int:
        """Return the position of the last touch; *end* when the caller reads it."""
        return end if self.output else (self.writers | self.readers).bit_length() - 1


class _Touches(dict[Buffer, Touch]):
    """The touches by buffer: none of one that has not been met."""

    def __missing__(self, buffer: Buffer) -> Touch:
        found = self[buffer] = Touch()
        return found


@mutable
class Liveness:
    """The touches of every buffer of a program in its present order."""

    nodes: tuple[Node, ...]
    touches: dict[Buffer, Touch] = field(default_factory=_Touches)
    _ancestors: list[int] | None = None

    @staticmethod
    def of(program: Program) -> Liveness:
        """Return the touches of *program*, all of whose values have buffers; nodes that run nothing touch nothing."""
        found = Liveness(tuple(program))
        touches = found.touches
        for value in _held(program.inputs):
            found.at(value).fed = True
        for position, node in enumerate(found.nodes):
            bit = 0 if node.in_place else 1 << position
            for value in node.inputs if bit else ():
                if value.constant is None:
                    touches[value.buffer or _buffer(value)].readers |= bit
            for value in node.outputs:
                if value.constant is None:
                    touches[value.buffer or _buffer(value)].writers |= bit
            for buffer in node.scratch:
                found.touches[buffer] = Touch(bit, bit)
        for value in _held(v for _, v in program.outputs):
            found.at(value).output = True
        return found

    def at(self, value: Value) -> Touch:
        """Return the touches of the buffer that holds *value*."""
        return self.touches[_buffer(value)]

    @property
    def ancestors(self) -> list[int]:
        """The strict ancestors of every node over all paths, as masks."""
        if self._ancestors is None:
            position = {id(node): i for i, node in enumerate(self.nodes)}
            self._ancestors = []
            for node in self.nodes:
                mask = 0
                for value in node.inputs:
                    if value.producer is not None:
                        at = position[id(value.producer)]
                        mask |= self._ancestors[at] | 1 << at
                self._ancestors.append(mask)
        return self._ancestors

    def before(self, first: Touch, writers: int) -> bool:
        """Whether every touch of *first* is a strict ancestor of every one of *writers*."""
        if first.output:
            return False
        done = -1
        while writers:
            position = writers.bit_length() - 1
            done &= self.ancestors[position]
            writers &= ~(1 << position)
        return not first.all & ~done


def _buffer(value: Value) -> Buffer:
    if value.buffer is None:
        raise ValueError(f"{value.name} has no buffer")
    return value.buffer


def _held(values: Iterable[Value]) -> list[Value]:
    return [v for v in values if v.constant is None]
