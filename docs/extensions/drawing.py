"""A program as SVG: a row a node in execution order, edges as arcs to the left, what a pass has changed marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from clgraph.core.layout import Layout
from clgraph.graph.node import Node
from clgraph.graph.program import Program

_ROW, _ARCS, _WIDTH = 24, 56, 760
_COLUMNS = {"node": _ARCS, "result": 226, "kernel": 432, "weights": 560, "place": 694}
_NEW, _CHANGED, _BOX = "rgba(70, 160, 90, 0.35)", "rgba(250, 170, 20, 0.38)", "rgba(120, 140, 180, 0.13)"


@dataclass(frozen=True)
class Row:
    """What is shown of a node, an input or an output.

    Attributes:
        cells: Text by column.
        reads: The names of the rows whose results are read.
    """

    name: str
    cells: Mapping[str, str]
    reads: tuple[str, ...]


def rows_of(program: Program) -> tuple[Row, ...]:
    """Return the rows of a program as it is now: inputs, nodes and outputs."""
    makers = {id(value): node.name for node in program for value in node.outputs}
    makers |= {id(value): value.name for value in program.inputs}
    rows = [Row(v.name, {"node": f"{v.name}  input", "result": _layout(v.layout)}, ()) for v in program.inputs]
    for node in program:
        reads = dict.fromkeys(makers[id(v)] for v in node.inputs if id(v) in makers)
        rows.append(Row(node.name, _cells(node), tuple(reads)))
    for name, value in program.outputs:
        rows.append(Row(f"={name}", {"node": f"{name}  output"}, (makers[id(value)],)))
    return tuple(rows)


def draw(rows: Sequence[Row], before: Sequence[Row] | None = None) -> str:
    """Return the picture of *rows*; marked is what is not as in *before*."""
    old = {row.name: row for row in before} if before is not None else None
    height = (len(rows) + 1) * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" '
        'font-family="sans-serif" font-size="10.5" fill="currentColor" stroke="none">'
    ]
    shown = [c for c in _COLUMNS if any(row.cells.get(c) for row in rows)]
    parts += [f'<text x="{_COLUMNS[c] + 6}" y="16" font-style="italic" opacity="0.7">{c}</text>' for c in shown]
    places = {row.name: i for i, row in enumerate(rows)}
    for i, row in enumerate(rows):
        is_new = old is not None and row.name not in old
        parts += [_arc(places[source], i) for source in row.reads]
        for column in shown:
            text = row.cells.get(column, "")
            was = None if old is None or is_new else old[row.name].cells.get(column, "")
            fill = _NEW if is_new else _CHANGED if was is not None and was != text else ""
            parts.append(_cell(column, i, text, fill))
    return "\n".join([*parts, "</svg>"])


def gone(rows: Sequence[Row], before: Sequence[Row]) -> tuple[str, ...]:
    """Return the names that *before* has and *rows* have not."""
    names = {row.name for row in rows}
    return tuple(row.name for row in before if row.name not in names)


def _cell(column: str, row: int, text: str, fill: str) -> str:
    left, top = _COLUMNS[column], (row + 1) * _ROW
    right = min((x for x in _COLUMNS.values() if x > left), default=_WIDTH)
    parts = []
    if column == "node" or (fill and text):
        parts.append(
            f'<rect x="{left}" y="{top + 2}" width="{right - left - 6}" height="{_ROW - 4}" rx="4" '
            f'fill="{fill or _BOX}"/>'
        )
    name, _, rest = text.partition("  ")
    bold = f'<tspan font-weight="bold">{escape(name)}</tspan> {escape(rest)}' if column == "node" else escape(text)
    return "".join([*parts, f'<text x="{left + 6}" y="{top + 16}">{bold}</text>'])


def _arc(source: int, reader: int) -> str:
    start, end = (source + 1.5) * _ROW + 3, (reader + 1.5) * _ROW - 3
    reach = 6 if reader == source + 1 else min(14 + 6 * (reader - source), _ARCS)
    path = f"M{_ARCS} {start} C{_ARCS - reach} {start} {_ARCS - reach} {end} {_ARCS} {end}"
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="1" opacity="0.55"/>'


def _cells(node: Node) -> dict[str, str]:
    value = node.output
    said = " ".join([_spelled(node), *(f"+{_function(f.primitive)}" for f in node.fused)])
    weights = [v.layout.format for v in node.inputs if v.constant is not None]
    place = "" if value.buffer is None or value.buffer.offset is None else f"@{value.buffer.offset + value.offset}"
    kernel = "" if node.choice is None else str(node.choice).partition(" ")[0]
    cells = {"node": f"{node.name}  {said}", "result": _layout(value.layout), "kernel": kernel, "place": place}
    return cells | ({"weights": str(weights[0])} if weights else {})


def _spelled(node: Node) -> str:
    kind = node.primitive.kind
    return _function(node.primitive) if kind in ("activation", "eltwise") else kind.replace("_", " ")


def _function(primitive: object) -> str:
    return str(getattr(primitive, "function", None) or getattr(primitive, "kind", ""))


def _layout(layout: Layout) -> str:
    text = f"{layout.dtype} {layout.format} {'x'.join(map(str, layout.shape))}"
    if layout.halo:
        text += f" halo {max(max(pair) for pair in layout.halo)}"
    return text + (" (part)" if layout.pitches and layout.pitches != layout.dense_pitches else "")
