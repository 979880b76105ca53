"""Verbosity of commands: ``-v``, ``-vv`` and ``-q``, before the command's name or behind it."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import click

from clgraph.cli.sections import MESSAGES, Sectioned
from clgraph.settings import LOG_LEVELS, settings

_KEY = "clgraph.verbosity"
_OURS = "clgraph-command-line"


def verbosity_options() -> list[click.Option]:
    """Return the options; they act by themselves and are not passed on."""
    return [
        Sectioned(
            ["-v", "--verbose"],
            count=True,
            expose_value=False,
            callback=lambda ctx, _, count: _add(ctx, count),
            section=MESSAGES,
            help="Show more messages (-v: info, -vv: debug).",
        ),
        Sectioned(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=lambda ctx, _, quiet: _add(ctx, -10 if quiet else 0),
            section=MESSAGES,
            help="Show no progress and no warnings.",
        ),
    ]


class _Shown(logging.StreamHandler[TextIO]):
    """Writes to ``sys.stderr`` as it is at each message: tests, which run commands in their process, exchange it."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.name = _OURS
        self.root_level = logging.root.level
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def start_logging(ctx: click.Context, log_level: str | None) -> None:
    """Show messages from *log_level* on (the environment's when ``None``) on the error stream until *ctx* is closed."""
    level = (log_level or settings().log_level).upper()
    logging.root.addHandler(shown := _Shown())
    ctx.call_on_close(lambda: _stop(shown))
    _set(level)
    _louder(verbosity())


def _stop(shown: _Shown) -> None:
    logging.root.removeHandler(shown)
    logging.root.setLevel(shown.root_level)


def format_messages(formatter: logging.Formatter) -> None:
    """Write what loggers let through by *formatter* from here on."""
    for handler in logging.root.handlers:
        if handler.name == _OURS:
            handler.setFormatter(formatter)
            handler.setLevel(logging.NOTSET)


def verbosity() -> int:
    """Return how many -v there are; below 0 for -q; 0 outside a command."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_KEY, 0) if context is not None else 0


def _add(ctx: click.Context, count: int) -> None:
    if not count or ctx.resilient_parsing:
        return
    ctx.meta[_KEY] = ctx.meta.get(_KEY, 0) + count
    _louder(ctx.meta[_KEY])


def _louder(count: int) -> None:
    if count:
        _set("ERROR" if count < 0 else ("INFO", "DEBUG")[min(count, 2) - 1])


def _set(level: str) -> None:
    assert level.lower() in LOG_LEVELS
    for handler in logging.root.handlers:
        if handler.name == _OURS:
            logging.root.setLevel(level)
            handler.setLevel(level)
