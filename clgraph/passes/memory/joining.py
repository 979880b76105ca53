"""Parts of a concat that lie in its result, and whether a value may lie elsewhere than it does."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from clgraph.core.layout import Layout
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.passes.base import Context
from clgraph.passes.memory.sharing import joins, part_of, unit_of
from clgraph.passes.selection import estimate, in_place, widest
from clgraph.selector.query import Query


def on_host(context: Context, node: Node) -> bool:
    """Whether *node* runs on the host, which reads dense plain arrays."""
    return context.device(node).kind == "host"


def from_elsewhere(node: Node) -> bool:
    """Whether the first input of *node* is made on another device."""
    producer = node.inputs[0].producer
    return producer is not None and producer.placement != node.placement


def join_parts(program: Program, context: Context, node: Node, once: Collection[Node]) -> None:
    """Let the inputs of a concat lie in its result, where all of them can; those made by *once* never can."""
    joined, whole = joins(node), node.output
    if on_host(context, node) or joined is None:
        return
    layout = _common_halo(program, context, whole, node)
    places = None if layout is None else _places(program, context, node, layout, whole.offset, once)
    if layout is None or places is None:
        return
    whole.layout = layout
    if whole.buffer is None:
        whole.buffer = Buffer(whole.name, whole.layout.nbytes)
    for value, layout, offset in places:
        value.layout, value.buffer, value.offset = layout, whole.buffer, offset
        if value.producer is not None:
            value.producer.choice = None
    node.choice = in_place(node, context)


def _places(
    program: Program, context: Context, node: Node, whole: Layout, base: int, once: Collection[Node]
) -> list[tuple[Value, Layout, int]] | None:
    """Return layout and offset of each input of a concat whose result is *whole* at *base*; ``None`` if one refuses."""
    joined = joins(node)
    if on_host(context, node) or joined is None or whole.halos[joined[0]] != (0, 0):
        return None
    places = []
    for value, start in zip(node.inputs, joined[1], strict=True):
        part = part_of(whole, joined[0], start, value.layout.shape)
        if part is None or (base + part[1]) % unit_of(context.device(node)):
            return None
        if not can_move(program, context, node, value, part[0], base + part[1], once):
            return None
        places.append((value, part[0], base + part[1]))
    return places


def _common_halo(program: Program, context: Context, whole: Value, node: Node) -> Layout | None:
    """Return the layout of a concat's result with the widest halo of its inputs; ``None`` if a reader refuses that."""
    halo = whole.layout.halos
    for value in node.inputs:
        halo = widest(halo, value.layout.halos)
    if halo == whole.layout.halos:
        return whole.layout
    layout = whole.layout.with_halo(halo)
    movable = whole.buffer is None and not program.is_output(whole)
    return layout if movable and all(reads(context, r, whole, layout) for r in whole.readers) else None


def can_move(
    program: Program, context: Context, node: Node, value: Value, layout: Layout, base: int, once: Collection[Node]
) -> bool:
    """Whether *value* can lie as *layout* at *base*, to its producer and to its readers other than *node*."""
    own = value.layout
    if value.producer is None or value.producer in once or program.is_output(value) or value.buffer is not None:
        return False
    if own.dtype != layout.dtype or own.format != layout.format or not layout.has_zeros(own.halos):
        return False
    producer = value.producer
    q = context.query(producer)
    outputs = tuple(layout if v is value else x for v, x in zip(producer.outputs, q.outputs, strict=True))
    if producer.placement != node.placement or producer.in_place:
        return False
    joined = _places(program, context, producer, layout, base, once) if isinstance(producer.primitive, Concat) else None
    if joined is None and not _serves(context, producer, q, q.inputs, outputs):
        return False
    return all(reads(context, reader, value, layout) for reader in value.readers if reader is not node)


def reads(context: Context, reader: Node, value: Value, layout: Layout) -> bool:
    """Whether *reader* runs as well with *value* as *layout*."""
    if reader.in_place:
        return False
    q = context.query(reader)
    inputs = tuple(layout if v is value else x for v, x in zip(reader.inputs, q.inputs, strict=True))
    return on_host(context, reader) or _serves(context, reader, q, inputs, q.outputs)


def _serves(
    context: Context, node: Node, q: Query[Any], inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]
) -> bool:
    """Whether *node* runs on other pitches about as fast as now."""
    now, then = estimate(context, node, q), estimate(context, node, q.with_layouts(inputs, outputs))
    return then is not None and (now is None or then <= 1.5 * now)
