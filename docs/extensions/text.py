"""Paragraphs and tables of generated text, in which code stands between backquotes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docutils import nodes

Row = Sequence[str]


def paragraph(text: str) -> nodes.paragraph:
    """Return *text*, what stands between one or two backquotes as code."""
    found = nodes.paragraph()
    for i, part in enumerate(text.replace("``", "`").split("`")):
        found += nodes.literal(part, part) if i % 2 else nodes.Text(part)
    return found


def table(head: Row, rows: Iterable[Row]) -> nodes.table:
    """Return a table of paragraphs."""
    found, group = nodes.table(), nodes.tgroup(cols=len(head))
    found += group
    group.extend(nodes.colspec(colwidth=1) for _ in head)
    for part, lines in ((nodes.thead(), [head]), (nodes.tbody(), rows)):
        for line in lines:
            row = nodes.row()
            row.extend(nodes.entry("", paragraph(cell)) for cell in line)
            part += row
        group += part
    return found
