"""What the server says, in lines of one form: time, level, what has happened, and names with values.

``2026-01-31T12:00:00.123Z info load model=resnet50 version=1 seconds=0.41``
"""

from __future__ import annotations

import json
import logging
import time

from clgraph.errors import ClgraphError, InternalError

_log = logging.getLogger("clgraph.serving")


class Lines(logging.Formatter):
    """Formats log records as lines; messages of other loggers become ``message from=... text="..."``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with an exception's name and text in it, and its traceback below for debugging."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        text = record.getMessage()
        if record.name != _log.name:
            text = f"message from={record.name} text={_value(text)}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return f"{stamp}.{int(record.msecs):03d}Z {record.levelname.lower()} {text}"


def event(what: str, **about: object) -> None:
    """Log what has happened."""
    _log.info(_line(what, about))


def detail(what: str, **about: object) -> None:
    """Log what is of interest to who looks for a fault: each call."""
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug(_line(what, about))


def fault(what: str, error: BaseException, **about: object) -> None:
    """Log what has failed and why; where details are shown, also the traceback of what nobody meant to raise."""
    _log.warning(_line(what, {**about, "error": type(error).__name__, "text": str(error)}))
    if isinstance(error, InternalError) or not isinstance(error, ClgraphError):
        _log.debug("traceback of the line above", exc_info=error)


def _line(what: str, about: dict[str, object]) -> str:
    return " ".join([f"{what} failed" if "error" in about else what, *(f"{n}={_value(v)}" for n, v in about.items())])


def _value(value: object) -> str:
    """Return *value* as one word; text of a client cannot begin a line of its own."""
    text = str(value)
    plain = text.isascii() and text.isprintable() and text and not set(text) & set(' "=\\')
    return text if plain else json.dumps(text)
