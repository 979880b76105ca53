"""A program as Graphviz text."""

from __future__ import annotations

from clgraph.graph.node import Node
from clgraph.graph.program import Program

_COLOURS = {"conv": "#cfe2f3", "reorder": "#f4cccc", "matmul": "#d9ead3", "pool": "#fff2cc", "concat": "#ead1dc"}


def print_dot(program: Program) -> str:
    """Return the program as a ``digraph``: nodes with layout, hint, placement and implementation, edges with shapes.

    Where a planned program has several subgraphs, each is a cluster.
    """
    lines = ["digraph program {", '  node [shape=box, style=filled, fillcolor=white, fontname="sans-serif"];']
    ids: dict[int, str] = {}
    for i, value in enumerate(program.inputs):
        ids[id(value)] = f"i{i}"
        label = _escape("\n".join((value.name, str(value.layout))))
        lines.append(f'  i{i} [shape=ellipse, label="{label}"];')
    for i, node in enumerate(program):
        for value in node.outputs:
            ids[id(value)] = f"n{i}"
        lines.append(f'  n{i} [label="{_escape(_label(node))}", fillcolor="{_colour(node)}"];')
        edges = [(ids[id(v)], "x".join(map(str, v.layout.shape))) for v in node.inputs if id(v) in ids]
        lines += [f'  {source} -> n{i} [label="{shape}"];' for source, shape in edges]
    for number, subgraph in enumerate(program.subgraphs if len(program.subgraphs) > 1 else ()):
        inside = " ".join(f"{ids[id(n.output)]};" for n in subgraph.nodes)
        lines.append(f'  subgraph cluster_{number} {{ label="{_escape(subgraph.id)}"; {inside} }}')
    for i, (name, value) in enumerate(program.outputs):
        lines.append(f'  o{i} [shape=ellipse, label="{_escape(name)}"];')
        if id(value) in ids:
            lines.append(f"  {ids[id(value)]} -> o{i};")
    return "\n".join([*lines, "}"])


def _label(node: Node) -> str:
    parts = [node.name, str(node.primitive), *(f"+ {f.primitive}" for f in node.fused), str(node.output.layout)]
    if node.annotation is not None:
        parts.append(f'"{node.annotation}"')
    if node.placement is not None:
        parts.append(f"@{node.placement}")
    return "\n".join(parts + ([str(node.choice)] if node.choice is not None else []))


def _colour(node: Node) -> str:
    return next((c for prefix, c in _COLOURS.items() if node.primitive.kind.startswith(prefix)), "white")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
