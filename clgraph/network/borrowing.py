"""Which inputs, results and constants kernels can use where the caller, or the program, has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clgraph.core.aligned import ALIGNMENT
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.network.addresses import LEAST_BORROWED
from clgraph.passes.chosen import choice_of
from clgraph.selector.plan import Tile
from clgraph.selector.query import DeviceInfo


def readable_in_place(program: Program, placement: str, info: DeviceInfo) -> list[Value]:
    """Return the inputs of *program* that its nodes on *placement* can read where the caller has them.

    The device works on the host's memory, and all that reads the input, or a view of it, are tile functions on
    *placement* that take any alignment. Neither is an output, and nothing else shares the memory.
    """
    if "host_memory" not in info.features:
        return []
    return [
        v
        for v in program.inputs
        if v.layout.nbytes >= LEAST_BORROWED
        and v.readers
        and v.buffer is not None
        and v.buffer.placement == placement
        and not any(slot in n.updates for n, slot in v.uses)
        and all(_is_only_read(program, view, placement) for view in views_of(v))
    ]


def views_of(value: Value) -> list[Value]:
    """Return *value* and all that nodes which run nothing make of it: reshapes and cuts."""
    found = [value]
    for view in found:
        found += [v for node in view.readers if node.in_place for v in node.outputs]
    return found


def _is_only_read(program: Program, value: Value, placement: str) -> bool:
    if program.is_output(value):
        return False
    return all(
        node.placement == placement
        and (node.in_place or (_reads_in_place(node, slot) and all(v.buffer is not value.buffer for v in node.outputs)))
        for node, slot in value.uses
    )


def updated(program: Program, placement: str) -> list[Value]:
    """Return the inputs of *program* that its nodes on *placement* update where the caller has them."""
    return [v for v in program.inputs if any(n.placement == placement and slot in n.updates for n, slot in v.uses)]


def writable_in_place(program: Program, placement: str, info: DeviceInfo) -> dict[Value, list[Value]]:
    """Return the results of *program* that its nodes on *placement* can write where they are returned.

    With each comes what shares its memory: its parts, what was overwritten by it, and itself. The device works on the
    host's memory, the result is one output that no node reads, and all that touches the memory are tile functions on
    *placement*. They may read and write a vector that begins in it: :func:`suits_callers` says whether they do not.
    """
    if "host_memory" not in info.features:
        return {}
    named = Counter(v for _, v in program.outputs)
    found = [
        v
        for v in named
        if v.layout.nbytes >= LEAST_BORROWED
        and not v.readers
        and named[v] == 1
        and v.buffer is not None
        and v.buffer.placement == placement
        and v.buffer.nbytes == v.layout.nbytes
    ]
    if not found:
        return {}
    sharing: dict[Buffer | None, list[Value]] = {v.buffer: [] for v in found}
    for value in (*program.inputs, *(v for n in program for v in n.outputs)):
        if value.buffer in sharing:
            sharing[value.buffer].append(value)
    return {
        v: sharing[v.buffer]
        for v in found
        if all(
            _is_made_by_tiles(part, placement) and (part is v or not program.is_output(part))
            for part in sharing[v.buffer]
        )
    }


def _is_made_by_tiles(part: Value, placement: str) -> bool:
    """Whether tile functions on *placement* alone write and read *part*."""
    nodes = (part.producer, *part.readers)
    return all(node is not None and node.placement == placement and _runs_tiles(node) for node in nodes)


def _runs_tiles(node: Node) -> bool:
    return node.in_place or all(isinstance(s, Tile) for s in choice_of(node).plan().steps)


def suits_callers(value: Value, parts: Iterable[Value]) -> bool:
    """Whether the result *value* may lie in an aligned array of the caller's, behind which nothing may be touched.

    It ends with a whole vector, and nothing reads what shares its memory, *parts*, but what makes it of them.
    """
    return value.layout.nbytes % ALIGNMENT == 0 and all(n.in_place for part in parts for n in part.readers)


def _reads_in_place(node: Node, slot: int) -> bool:
    if node.in_place:
        return False
    return all(isinstance(s, Tile) and s.descriptor.reads_in_place(slot) for s in choice_of(node).plan().steps)


def suits_readers(value: Value) -> bool:
    """Whether the kernels that read the constant *value* take any address."""
    return value.layout.is_dense_plain and all(s == 0 and _reads_in_place(n, s) for n, s in value.uses)
