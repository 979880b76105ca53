"""An oracle for memory plans that shares nothing with the planner: it walks the graph from scratch for every pair."""

from __future__ import annotations

import functools

import numpy as np

from clgraph.core.layout import Layout
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program


def buffers_of(program: Program) -> dict[Buffer, list[Value]]:
    found: dict[Buffer, list[Value]] = {}
    for value in program.values:
        if value.constant is None and value.buffer is not None:
            found.setdefault(value.buffer, []).append(value)
    for node in program:
        for buffer in node.scratch:
            found[buffer] = []
    return found


def overlap(a: Buffer, b: Buffer) -> bool:
    """Whether the bytes of two planned buffers intersect."""
    assert a.offset is not None
    assert b.offset is not None
    return a.placement == b.placement and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes


def violations(program: Program, *, out_of_order: bool) -> list[str]:
    """Return every pair of buffers that share bytes although some valid execution has both contents alive."""
    nodes = list(program)
    buffers = buffers_of(program)
    earlier = {node: _ancestors(node) if out_of_order else set(nodes[:i]) for i, node in enumerate(nodes)}
    listed = list(buffers)
    return [
        f"{a.name} and {b.name}"
        for i, a in enumerate(listed)
        for b in listed[i + 1 :]
        if overlap(a, b)
        and not _may_follow(program, nodes, buffers, earlier, a, b)
        and not _may_follow(program, nodes, buffers, earlier, b, a)
    ]


def _may_follow(program, nodes, buffers, earlier, first: Buffer, then: Buffer) -> bool:
    """Whether everything that touches *first* is over before anything writes *then*, in every valid execution."""
    if any(program.is_output(v) for v in buffers[first]) or any(v in program.inputs for v in buffers[then]):
        return False
    touching = [n for n in nodes if _touches(n, first, buffers)]
    writing = [n for n in nodes if _writes(n, then, buffers)]
    return all(t in earlier[w] for t in touching for w in writing)


def _touches(node: Node, buffer: Buffer, buffers) -> bool:
    if node.in_place:
        return False
    return buffer in node.scratch or any(v.buffer is buffer for v in (*node.inputs, *node.outputs))


def _writes(node: Node, buffer: Buffer, buffers) -> bool:
    return not node.in_place and (buffer in node.scratch or any(v.buffer is buffer for v in node.outputs))


def _ancestors(node: Node) -> set[Node]:
    found: set[Node] = set()
    waiting = [v.producer for v in node.inputs if v.producer is not None]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [v.producer for v in one.inputs if v.producer is not None]
    return found


def element_bytes(value: Value, *, whole: bool = False) -> np.ndarray:
    """Return the byte address, in its arena, of every logical element; of halo and tail lanes too when *whole*."""
    assert value.buffer is not None
    return (value.buffer.offset or 0) + value.offset + _distances(value.layout, whole)


@functools.lru_cache(maxsize=256)
def _distances(layout: Layout, whole: bool) -> np.ndarray:
    """Return the distance in bytes of every element from the start of its value."""
    shape = layout.extents if whole else layout.shape
    index = np.indices(shape).reshape(layout.rank, -1)
    at = np.zeros(index.shape[1], np.int64)
    for axis in range(layout.rank):
        i = index[axis] + (0 if whole else layout.halos[axis][0])
        block = layout.format.block(axis)
        at += (i // block) * layout.all_pitches[axis] + (i % block) * layout.inner_pitches[axis]
    return at.reshape(shape) * layout.dtype.itemsize


ZERO, SPOILT = -1, -2


def simulate(program: Program, order: list[Node]) -> None:
    """Execute *order* on tokens: every element has one of its own, and a reader must find what was written for it.

    A producer writes halo and tail lanes as ``ZERO``; readers must find those too. Raises ``AssertionError`` where a
    value was overwritten before its last reader, an output before the end.
    """
    memory = np.full(max((b.offset or 0) + b.nbytes for b in buffers_of(program)), SPOILT, np.int64)
    tokens: dict[Value, np.ndarray] = {}
    fresh = 0

    def write(value: Value) -> None:
        nonlocal fresh
        count = value.layout.count
        tokens[value] = np.arange(fresh, fresh + count).reshape(value.layout.shape)
        fresh += count
        memory[element_bytes(value, whole=True)] = ZERO
        memory[element_bytes(value)] = tokens[value]

    def read(value: Value, what: str) -> None:
        assert (memory[element_bytes(value)] == tokens[value]).all(), f"{what} finds {value.name} overwritten"
        around = memory[element_bytes(value, whole=True)]
        assert (np.sort(around, axis=None)[: around.size - value.layout.count] == ZERO).all(), f"{what}: {value.name}"

    for value in program.inputs:
        write(value)
    for node in order:
        if node.in_place:
            results = node.primitive.reference(*(tokens[v] for v in node.inputs))
            tokens.update(zip(node.outputs, results, strict=True))
            continue
        for value in node.inputs:
            if value.constant is None:
                read(value, node.name)
        for buffer in node.scratch:
            memory[buffer.offset : (buffer.offset or 0) + buffer.nbytes] = SPOILT
        for value in node.outputs:
            write(value)
    for name, value in program.outputs:
        if value.constant is None:
            read(value, f"output {name}")
