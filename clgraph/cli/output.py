"""Output of commands: tables on a terminal, plain aligned text elsewhere."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clgraph.cli.verbosity import verbosity

_NUMERIC = frozenset("0123456789.,+-%e ")
_LEAST_PROSE = 24
"""Letters that a column of words has room for at least, to be read with ease."""


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str = "", spare: Sequence[str] = ()) -> None:
    """Print *rows* under *headers*; columns of numbers stand to the right.

    On a terminal that is too narrow for all columns, those of *spare* are shown that there is room for, the first
    before the others, and a line says what is left out; else the words of the last column go on below; where that is
    not enough, each row is a paragraph. Words are never broken. In a pipe there is always the whole table.
    """
    lines = [[str(cell) for cell in row] for row in rows]
    right = [bool(lines) and all(set(line[i]) <= _NUMERIC for line in lines) for i in range(len(headers))]
    if not sys.stdout.isatty():
        _plain([list(headers), *lines], right)
        return
    console = Console()
    kept = _fitting(headers, lines, spare, console.width)
    if not kept:
        _cards(console, headers, lines, title)
        return
    drawn = Table(title=title or None, box=None, title_justify="left", header_style="bold", pad_edge=False)
    for i in kept:
        drawn.add_column(headers[i], justify="right" if right[i] else "left", no_wrap=i != kept[-1])
    for line in lines:
        drawn.add_row(*(escape(line[i]) for i in kept))
    console.print(drawn)
    if left_out := [header for i, header in enumerate(headers) if i not in kept]:
        say(f"(a wider terminal, or a pipe, shows {', '.join(left_out)}, too)")


def _fitting(headers: Sequence[str], lines: Sequence[Sequence[str]], spare: Sequence[str], width: int) -> Sequence[int]:
    """Return the columns that *width* has room for, without breaking a word; none where there is no room."""
    columns = list(zip(headers, *lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    longest = [max((len(word) for cell in column for word in cell.split()), default=0) for column in columns]
    every = range(len(headers))
    kept = [i for i in every if headers[i] not in spare]
    for i in (headers.index(name) for name in spare if name in headers):
        if sum(widths[k] + 2 for k in (*kept, i)) - 2 <= width:
            kept.append(i)
    if sum(widths[i] + 2 for i in kept) - 2 <= width:
        return sorted(kept)
    left = width - sum(w + 2 for w in widths[:-1])
    return every if left >= max(longest[-1], _LEAST_PROSE) else ()


def _cards(console: Console, headers: Sequence[str], lines: Sequence[Sequence[str]], title: str) -> None:
    """Print each row as a paragraph: its first cell, and below it the others with what they are."""
    if title:
        console.print(title, markup=False, style="bold")
    for name, *cells in lines:
        console.print(name, markup=False, style="bold", soft_wrap=True, highlight=False)
        told = ", ".join(f"{header} {cell}".strip() for header, cell in zip(headers[1:], cells, strict=True) if cell)
        for text in textwrap.wrap(told, console.width - 2, break_long_words=False, break_on_hyphens=False):
            click.echo(f"  {text}")


def _plain(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    widths = [max(len(line[i]) for line in lines) for i in range(len(right))]
    for line in lines:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        click.echo("  ".join(cells).rstrip())


def say(text: str = "") -> None:
    """Print *text*; on a terminal a line that is too long goes on below, behind the place of its first word's value."""
    width = Console().width if sys.stdout.isatty() else 0
    if not width or len(text) <= width or "\n" in text:
        click.echo(text)
        return
    indent = len(text) - len(text[12:].lstrip()) if text[:12].rstrip() and text[11:12] == " " else 2
    wrapped = textwrap.wrap(text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    for line in wrapped:
        click.echo(line)


json_option = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
"""Decorator: the flag of commands whose figures programs read, passed on as ``as_json``."""


def say_json(value: object) -> None:
    """Print *value*, of dataclasses, mappings, sequences and scalars, as JSON; what is not a number is null."""
    click.echo(json.dumps(json_value(value), indent=1))


def json_value(value: Any) -> Any:
    """Return *value*, of dataclasses, mappings, sequences and scalars, as JSON has it; what is not a number is null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: json_value(getattr(value, f.name)) for f in fields(value) if f.repr and f.init}
    if isinstance(value, Mapping):
        return {str(key): json_value(v) for key, v in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [json_value(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def remark(lines: Iterable[str]) -> None:
    """Show notes on the error stream; not with -q."""
    if verbosity() >= 0:
        for line in lines:
            click.echo(f"note: {line}", err=True)


def nbytes(count: float) -> str:
    """Return a number of bytes in a unit that fits it."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def milliseconds(seconds: float) -> str:
    """Return *seconds* as milliseconds, without the unit."""
    return f"{seconds * 1e3:.2f}"
