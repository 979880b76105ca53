"""Constant nodes as programs of their own: in batches, on the device or by the references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.packing import pack, unpack
from clgraph.graph.buffer import Buffer
from clgraph.graph.check import check
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context
from clgraph.passes.constants.copying import Copier
from clgraph.passes.kernels.build_kernels import BuildKernels
from clgraph.passes.memory.memory_dependencies import MemoryDependencies
from clgraph.passes.memory.oooq_memory_dependencies import OooqMemoryDependencies
from clgraph.passes.memory.plan_memory import PlanMemory
from clgraph.passes.selection import in_place

BATCH_BYTES = 1 << 25
"""Of results that a program of constants holds on the device at once, about."""


def batches(nodes: Sequence[Node], limit: int = BATCH_BYTES) -> Iterable[list[Node]]:
    """Cut *nodes* into groups with about *limit* bytes of results; what is connected stays together."""
    group_of: dict[Node, list[Node]] = {}
    for node in nodes:
        joined = [node]
        for value in node.inputs:
            if value.producer is not None and (other := group_of[value.producer]) is not joined:
                joined[:0] = other
                group_of.update(dict.fromkeys(other, joined))
        group_of[node] = joined
    order = {node: i for i, node in enumerate(nodes)}
    batch: list[Node] = []
    size = 0
    for group in {id(g): g for g in group_of.values()}.values():
        batch += group
        size += sum(v.layout.nbytes for node in group for v in node.outputs)
        if size >= limit:
            yield sorted(batch, key=order.__getitem__)
            batch, size = [], 0
    if batch:
        yield sorted(batch, key=order.__getitem__)


def leaving(batch: Sequence[Node], program: Program) -> list[Value]:
    """Return the results of *batch* that are read outside it or are outputs of the graph."""
    inside = set(batch)
    made = [v for node in batch for v in node.outputs]
    return [v for v in made if program.is_output(v) or any(reader not in inside for reader in v.readers)]


def on_device(batch: Sequence[Node], program: Program, context: Context) -> list[tuple[Value, Array]]:
    """Return what :func:`leaving` *batch*, computed by a program of copies that ``Context.execute`` runs."""
    frontier = leaving(batch, program)
    part = _extract(batch, frontier, program.milestone, context)
    for step in (MemoryDependencies(), OooqMemoryDependencies(), PlanMemory()):
        step.run(part, context)
    part.milestone = Milestone.PLANNED
    check(part)
    BuildKernels().run(part, context)
    assert context.execute is not None
    results = context.execute(part, {})
    return [(v, results[str(i)]) for i, v in enumerate(frontier)]


def _extract(batch: Sequence[Node], frontier: Sequence[Value], milestone: Milestone, context: Context) -> Program:
    """Return a program of copies of *batch* whose outputs, named 0, 1, …, are the flat memory of *frontier*."""
    copier = Copier()
    nodes = [copier.node(node) for node in batch]
    made_by = {id(v): node for node in nodes for v in node.outputs}
    results = []
    for i, value in enumerate(frontier):
        result = copier.value(value)
        if not value.layout.is_dense_plain:
            view = _memory_of(result, made_by[id(result)], context)
            nodes.append(view)
            result = view.output
        results.append((str(i), result))
    part = Program([], results, nodes)
    part.milestone = milestone
    return part


@frozen
class _Memory(Primitive):
    """The whole memory of a tensor in *layout*, halo and tail lanes included, seen as a tensor of one axis."""

    layout: Layout

    kind: ClassVar[str] = "memory"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(self.layout.dtype, (self.layout.span,)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (pack(inputs[0], self.layout),)


def _memory_of(value: Value, source: Node, context: Context) -> Node:
    """Return a node without a kernel whose result is the whole memory of *value*, so that it can be read back flat."""
    value.buffer = value.buffer or Buffer(value.name, value.layout.nbytes)
    memory = _Memory(value.layout)
    (layout,) = memory.infer([value.layout])
    flat = Value(f"{value.name}/memory", layout, buffer=value.buffer, offset=value.offset)
    node = Node(flat.name, memory, (value,), (flat,), 1, origin=source.origin, placement=source.placement)
    node.choice = in_place(node, context)
    return node


def on_host(batch: Sequence[Node], program: Program) -> list[tuple[Value, Array]]:
    """Return what :func:`leaving` *batch*, computed by the references."""
    known: dict[Value, Array] = {}
    for node in batch:
        inputs = [known[v] if v in known else logical(v) for v in node.inputs]
        known.update(zip(node.outputs, node.reference(*inputs), strict=True))
    frontier = leaving(batch, program)
    return [(v, known[v] if v.layout.is_dense_plain else pack(known[v], v.layout)) for v in frontier]


def logical(value: Value) -> Array:
    """Return the data of a constant as NumPy holds it."""
    if value.constant is None:
        raise ValueError(f"{value.name} is not a constant")
    return value.constant if value.layout.is_dense_plain else unpack(value.constant, value.layout)
