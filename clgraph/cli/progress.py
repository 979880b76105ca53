"""Progress of commands, on a terminal's error stream."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from clgraph.cli.verbosity import verbosity
from clgraph.core import progress

PATIENCE_SECONDS = 1.0
"""What is over sooner shows nothing."""
_REFRESH_SECONDS = 0.1


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show *what*, how far it is and for how long, while the block runs, where that takes longer than a moment.

    Behind it stands what clgraph tells meanwhile: the pass, kernel or stage that it is at, of how many, and what it
    logs, such as the library of kernels that is being compiled. With -v these messages have lines of their own; with
    -q, and where the error stream is no terminal, there is nothing.
    """
    console = Console(stderr=True)
    if not console.is_terminal or verbosity():
        yield
        return
    line = TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
    shown = Progress(SpinnerColumn(), line, TimeElapsedColumn(), console=console, transient=True, expand=True)
    handler = _Handler(shown, what)
    log = logging.getLogger("clgraph")
    levels = {log: min(log.getEffectiveLevel(), logging.INFO), progress.LOG.logger: logging.DEBUG}
    before = {logger: logger.level for logger in levels}
    patience = threading.Timer(PATIENCE_SECONDS, shown.start)
    patience.daemon = True
    log.addHandler(handler)
    for logger, level in levels.items():
        logger.setLevel(level)
    patience.start()
    try:
        yield
    finally:
        patience.cancel()
        patience.join()
        shown.stop()
        log.removeHandler(handler)
        for logger, level in before.items():
            logger.setLevel(level)


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
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(what), total=total)
        shown = 0.0

        def advance(done: float) -> None:
            nonlocal shown
            if (now := time.monotonic()) - shown > _REFRESH_SECONDS:
                shown = now
                bar.update(task, completed=min(done, total))

        yield advance


class _Handler(logging.Handler):
    """Shows behind a description what is told and logged: the work that each piece of work is a part of, outer first.

    What is told for the first time is a part of what was told before it; of what is told again, the parts are over.
    What is counted up to one says nothing. What is logged is shown until something is told.
    """

    def __init__(self, shown: Progress, what: str) -> None:
        """Show behind *what*."""
        super().__init__(logging.DEBUG)
        self._shown, self._what = shown, what
        self._task = shown.add_task(escape(what), total=None)
        self._parts: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message."""
        if record.name != progress.LOG.name:
            if record.levelno >= logging.INFO:
                self._show(record.getMessage())
        elif record.levelno == logging.DEBUG and isinstance(record.args, tuple):
            what, number, total, name = record.args
            if total != 1:
                outer = takewhile(lambda kept: kept != what, self._parts)
                self._parts = {kept: self._parts[kept] for kept in outer} | {str(what): f"{what} {number} of {total}"}
                self._show(str(name))

    def _show(self, last: str) -> None:
        place = ", ".join(self._parts.values())
        text = ": ".join(filter(None, [self._what, place, last]))
        self._shown.update(self._task, description=escape(text))
