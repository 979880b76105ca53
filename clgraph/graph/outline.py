"""A program as plain data for tools: what the ``.json`` of a dump says of it, without its constants."""

from __future__ import annotations

from typing import Any

from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value, print_fused
from clgraph.graph.program import Program
from clgraph.graph.subgraph import Subgraph


def outline(program: Program) -> dict[str, Any]:
    """Return names, layouts, places, primitives and decisions of *program*."""
    return {
        "milestone": program.milestone.name.lower(),
        "batch_slices": program.batch_slices,
        "inputs": [_value_json(v) for v in program.inputs],
        "constants": [_value_json(v) for v in program.constants],
        "nodes": [_node_json(node) for node in program],
        "outputs": [{"name": name, "value": v.name} for name, v in program.outputs],
        "subgraphs": [_subgraph_json(s) for s in program.subgraphs],
        "arenas": _arenas_json(program),
        "notes": program.notes,
    }


def _value_json(value: Value) -> dict[str, Any]:
    layout = value.layout
    data: dict[str, Any] = {"name": value.name, "dtype": str(layout.dtype), "shape": list(layout.shape)}
    data |= {"format": str(layout.format), "halo": [list(h) for h in layout.halos], "nbytes": layout.nbytes}
    if value.buffer is not None:
        data |= {"buffer": value.buffer.name, "offset": value.offset, "arena_offset": value.buffer.offset}
    return data


def _arenas_json(program: Program) -> dict[str, Any]:
    """Return the arenas of a planned program with the buffers in them, by placement."""
    held: dict[Buffer, list[str]] = {}
    for value in program.values:
        if value.buffer is not None:
            held.setdefault(value.buffer, []).append(value.name)
    return {
        name: {
            "nbytes": arena.nbytes,
            "lower_bound": arena.lower_bound,
            "unshared": arena.unshared,
            "buffers": [_buffer_json(b, held.get(b, [])) for b in program.buffers if b.placement == name],
        }
        for name, arena in program.arenas.items()
    }


def _buffer_json(buffer: Buffer, values: list[str]) -> dict[str, Any]:
    data = {"name": buffer.name, "nbytes": buffer.nbytes, "offset": buffer.offset}
    return data | {"first": buffer.first, "last": buffer.last, "values": values}


def _subgraph_json(subgraph: Subgraph) -> dict[str, Any]:
    return {
        "id": subgraph.id,
        "placement": subgraph.placement,
        "nodes": [n.name for n in subgraph.nodes],
        "inputs": [v.name for v in subgraph.inputs],
        "outputs": [v.name for v in subgraph.outputs],
    }


def _node_json(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "primitive": str(node.primitive),
        "kind": node.primitive.kind,
        "inputs": [v.name for v in node.inputs],
        "outputs": [_value_json(v) for v in node.outputs],
        "fused": [print_fused(step, node).strip() for step in node.fused],
        "origin": list(node.origin),
        "annotation": node.annotation or node.partitioned_by,
        "placement": node.placement,
        "implementation": None if node.choice is None else str(node.choice),
    }
