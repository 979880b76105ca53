"""Output of commands: tables and progress on a terminal, plain aligned text elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.status import Status
from rich.table import Table

from clgraph.cli.verbosity import verbosity

_REFRESH_SECONDS = 0.1
_NUMERIC = frozenset("0123456789.,+-%e ")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print *rows* under *headers*; columns of numbers stand to the right."""
    lines = [[str(cell) for cell in row] for row in rows]
    right = [bool(lines) and all(set(line[i]) <= _NUMERIC for line in lines) for i in range(len(headers))]
    if not sys.stdout.isatty():
        _plain([list(headers), *lines], right)
        return
    drawn = Table(title=title or None, box=None, title_justify="left", header_style="bold", pad_edge=False)
    for header, numeric in zip(headers, right, strict=True):
        drawn.add_column(header, justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        drawn.add_row(*map(escape, line))
    Console().print(drawn)


def _plain(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
    widths = [max(len(line[i]) for line in lines) for i in range(len(right))]
    for line in lines:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        click.echo("  ".join(cells).rstrip())


def say(text: str = "") -> None:
    """Print *text* as it is."""
    click.echo(text)


def remark(lines: Iterable[str]) -> None:
    """Show notes on the error stream; not with -q."""
    if verbosity() >= 0:
        for line in lines:
            click.echo(f"note: {line}", err=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show *what* with a spinner on the terminal's error stream while the block runs; nothing when it is none.

    Behind it stands what clgraph logs meanwhile, such as the library of kernels that is being compiled. With -v these
    messages have lines of their own, and with -q there is nothing.
    """
    console = Console(stderr=True)
    if not console.is_terminal or verbosity():
        yield
        return
    with console.status(escape(what)) as status:
        handler = _StatusHandler(status, what)
        log = logging.getLogger("clgraph")
        level = log.level
        log.addHandler(handler)
        log.setLevel(min(log.getEffectiveLevel(), logging.INFO))
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(level)


@contextmanager
def advancing(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show *what* with a bar, from 0 to *total*; yield what moves it. Silent where :func:`working` is."""
    console = Console(stderr=True)
    if not console.is_terminal or verbosity():
        yield lambda done: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(escape(what), total=total)
        shown = 0.0

        def advance(done: float) -> None:
            nonlocal shown
            if (now := time.monotonic()) - shown > _REFRESH_SECONDS:
                shown = now
                progress.update(task, completed=min(done, total))

        yield advance


class _StatusHandler(logging.Handler):
    """Shows messages behind a spinner."""

    def __init__(self, status: Status, what: str) -> None:
        """Show behind *what*."""
        super().__init__(logging.INFO)
        self._status, self._what = status, what

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message."""
        self._status.update(escape(f"{self._what}: {record.getMessage()}"))


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
