"""HTML that notebooks show of values: tables whose cells are text, never markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST = 100
"""Rows that are shown; of more, the number of the others."""


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return *rows* under *head* as a table with *title* above it."""
    from html import escape  # its table of entities would be read at every start, for notebooks alone

    lines = [tuple(map(str, row)) for row in rows]

    def row(cells: Sequence[str], tag: str) -> str:
        style = ' style="text-align: left"'
        return f"<tr>{''.join(f'<{tag}{style}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(row(line, "td") for line in lines[:MOST])
    more = f"<p>and {len(lines) - MOST} more</p>" if len(lines) > MOST else ""
    return (
        f"<div><strong>{escape(title)}</strong><table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table>"
        f"{more}</div>"
    )
