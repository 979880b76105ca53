"""A program as plain data for tools: what the ``.json`` of a dump says of it, without its constants."""

from __future__ import annotations

from typing import Any

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
        "arenas": {
            name: {"nbytes": a.nbytes, "lower_bound": a.lower_bound, "unshared": a.unshared}
            for name, a in program.arenas.items()
        },
        "notes": program.notes,
    }


def _value_json(value: Value) -> dict[str, Any]:
    layout = value.layout
    data: dict[str, Any] = {"name": value.name, "dtype": str(layout.dtype), "shape": list(layout.shape)}
    data |= {"format": str(layout.format), "halo": [list(h) for h in layout.halos], "nbytes": layout.nbytes}
    if value.buffer is not None:
        data |= {"buffer": value.buffer.name, "offset": value.offset, "arena_offset": value.buffer.offset}
    return data


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
