"""Memory dependencies of an in-order run. Answers clDNN's basic_ and skipped_branch_memory_dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.transfer import Transfer
from clgraph.passes.base import Context, Pass
from clgraph.passes.chosen import choice_of
from clgraph.passes.memory.liveness import Liveness, Touch
from clgraph.passes.memory.spans import Spans
from clgraph.selector.implementation import IMPLEMENTATIONS, overrides

_Held = dict[Buffer, list[Value]]
"""The values in each buffer."""


@frozen
class MemoryDependencies(Pass):
    """Give every value and every plan's scratch a buffer, and record from when to when it is alive.

    A node's first result takes over the buffer of an input when the implementation allows it (``overwrites``) and
    nothing else touches that buffer at or after the node. Buffers of graph inputs are the caller's to fill and are
    never taken over in this way; buffers of outputs neither. Counts the pairs that are alive at the same time.

    Attributes:
        counts: Whether it does: who binds a member needs no figure for a table of passes.
    """

    counts: bool = True

    name: ClassVar[str] = "memory_dependencies"
    required: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.SELECTED

    def run(self, program: Program, context: Context) -> int:
        held = _give_buffers(program, context)
        alive = _in_any_order(program, context, held) if context.out_of_order else _in_order(program, held)
        return _overlaps(alive) if self.counts else 0

    def describe(self, kind: str) -> str:
        over = any(overrides(i, "overwrites") for i in IMPLEMENTATIONS.of(kind))
        return "may write over an input that nothing else reads" if over else "gets memory of its own for its results"


def home_of(value: Value, context: Context) -> str:
    """Return the placement whose arena holds *value*: its producer's; of a graph input, its first reader's."""
    producer = value.producer
    if producer is not None and producer.placement is not None:
        return producer.placement
    nodes = () if producer is not None else _computing(value.readers)
    return next((n.placement for n in nodes if n.placement is not None), next(iter(context.devices)))


def _computing(readers: Sequence[Node]) -> Sequence[Node]:
    """Return the readers that are no transfers, all of them where there are only such."""
    return [n for n in readers if not isinstance(n.primitive, Transfer)] or readers


def _give_buffers(program: Program, context: Context) -> _Held:
    """Give values and scratch buffers; return the values in each of those that hold some."""
    held: _Held = {}
    for value in program.inputs:
        _hold(value, home_of(value, context), held)
    for node in program:
        choice, placement = choice_of(node), node.placement or next(iter(context.devices))
        for value in node.outputs:
            _hold(value, placement, held)
        sizes = () if choice.in_place else choice.plan().scratch
        node.scratch = tuple([Buffer(f"{node.name}/scratch{i}", n) for i, n in enumerate(sizes)]) if sizes else ()
        for buffer in node.scratch:
            buffer.placement = placement
    return held


def _hold(value: Value, placement: str, held: _Held) -> None:
    buffer = value.buffer
    if value.constant is not None:
        return
    if buffer is None:
        buffer = value.buffer = Buffer(value.name, value.layout.nbytes)
    if not buffer.placement:
        buffer.placement = placement
    if buffer in held:
        held[buffer].append(value)
    else:
        held[buffer] = [value]


def _in_order(program: Program, held: _Held) -> list[Buffer]:
    """Let results take over buffers where one node runs after the other; return what there is, with its positions."""
    spans = Spans.of(program, held)
    for position, node in enumerate(spans.nodes):
        for value in _overwritable(node):
            buffer, own = value.buffer, node.output.buffer
            assert buffer is not None
            assert own is not None
            if spans.ends_at(buffer, node, position):
                spans.join(buffer, own)
                _move(own, buffer, held)
                break
    return [*held, *spans.scratch]


def _in_any_order(program: Program, context: Context, held: _Held) -> list[Buffer]:
    """Return the same where a node may run as soon as all that it waits for is over."""
    liveness = Liveness.of(program)
    for position, node in enumerate(liveness.nodes):
        for value in _overwritable(node):
            buffer, own, touch = value.buffer, node.output.buffer, liveness.at(value)
            assert buffer is not None
            assert own is not None
            others = Touch(touch.writers, touch.readers & ~(1 << position), touch.output, touch.fed)
            if touch.fed or touch.output or not liveness.before(others, 1 << position):
                continue
            touch.join(liveness.touches.pop(own))
            _move(own, buffer, held)
            break
    end = len(liveness.nodes)
    for buffer, touch in liveness.touches.items():
        buffer.first, buffer.last = touch.first(), touch.last(end)
        buffer.clear_conflicts()
    return list(liveness.touches)


def _move(own: Buffer, taken: Buffer, held: _Held) -> None:
    for value in held[own]:
        value.buffer = taken
    held[taken] += held.pop(own)


def _overwritable(node: Node) -> Iterator[Value]:
    """Yield the inputs whose buffers the first result of *node* may take over, if nothing else touches them then."""
    if node.in_place or not overrides((choice := choice_of(node)).implementation, "overwrites"):
        return
    result, slots = node.output, choice.implementation.overwrites(choice.query)
    if not slots or result.buffer is None or not _alone(result):
        return
    for slot in sorted(slots):
        value = node.inputs[slot]
        if value.constant is not None or value.buffer is None or value.buffer is result.buffer or not _alone(value):
            continue
        if value.buffer.placement != result.buffer.placement or value.layout.nbytes != result.layout.nbytes:
            continue
        if not any(v.buffer is value.buffer and (s not in slots or v is not value) for s, v in enumerate(node.inputs)):
            yield value


def _alone(value: Value) -> bool:
    """Whether the value fills its buffer."""
    return value.buffer is not None and value.offset == 0 and value.buffer.nbytes == value.layout.nbytes


def _overlaps(buffers: Iterable[Buffer]) -> int:
    """Return how many pairs of buffers of one arena are alive at the same time."""
    pairs = 0
    alive: dict[str, list[int]] = {}
    for buffer in sorted(buffers, key=lambda b: b.first):
        ends = alive.setdefault(buffer.placement, [])
        while ends and ends[0] < buffer.first:
            heappop(ends)
        pairs += len(ends)
        heappush(ends, buffer.last)
    return pairs
