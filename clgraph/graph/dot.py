"""A program as Graphviz text."""

from __future__ import annotations

import textwrap
from collections import Counter
from html import escape

from clgraph.graph.colours import colour_of
from clgraph.graph.node import Node
from clgraph.graph.program import Program

_WIDTH = 56
"""Letters in a line of a node."""


def print_dot(program: Program) -> str:
    """Return the program as a ``digraph``: its nodes with all that is decided, its edges with shapes.

    The colours of the operators are told by a legend. Where a planned program has several subgraphs, each is a cluster.
    """
    style = 'shape=box, style="filled,rounded", fillcolor=white, fontname="sans-serif", fontsize=11, margin="0.1,0.05"'
    lines = ["digraph program {", "  ranksep=0.3; nodesep=0.2;", f"  node [{style}];"]
    lines += ['  edge [fontname="sans-serif", fontsize=9, color="#606060"];', *_legend(program)]
    ids: dict[int, str] = {}
    for i, value in enumerate(program.inputs):
        ids[id(value)] = f"i{i}"
        label = _escape("\n".join((value.name, str(value.layout))))
        lines.append(f'  i{i} [shape=ellipse, label="{label}"];')
    for i, node in enumerate(program):
        for value in node.outputs:
            ids[id(value)] = f"n{i}"
        lines.append(f'  n{i} [label="{_escape(_label(node))}", fillcolor="{colour_of(node.primitive.kind)}"];')
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
    parts += [str(node.choice)] if node.choice is not None else []
    return "\n".join(textwrap.fill(part, _WIDTH) for part in parts)


def _legend(program: Program) -> list[str]:
    """Return a node whose rows are the kinds of operators, each with its colour and how many there are."""
    counts = Counter(node.primitive.kind for node in program).most_common()
    rows = [f'<tr><td bgcolor="{colour_of(k)}">{escape(k)}</td><td>{count}</td></tr>' for k, count in counts]
    return [f'  legend [shape=plain, label=<<table border="0" cellspacing="2">{"".join(rows)}</table>>];'] * bool(rows)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
