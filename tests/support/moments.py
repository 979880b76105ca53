"""Interrupts at chosen moments: an exception at a given line of clgraph, as a signal handler would raise it there.

A moment is a line of code that a call executes. :func:`moments_of` lists those of a call in the order in which they
first come; :func:`interrupted` raises at one of them, the first time that the call comes there. Nothing depends on
time, so that what fails fails again.

A line that begins with an instruction that does nothing, as ``try:``, is none: Python calls handlers behind calls and
jumps alone, and compiles that instruction out of the reach of a ``with`` around it.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WITHIN = str(ROOT / "clgraph")

Moment = tuple[str, int, int]
"""File, first line of the function, line."""

_NOTHING = dis.opmap["NOP"]

OF_BUILTINS: tuple[type[BaseException], ...] = (ValueError, OSError, TimeoutError, KeyboardInterrupt, MemoryError)


def moments_of(call: Callable[[], object], within: str = WITHIN) -> list[Moment]:
    """Run *call* and return the lines that this thread executed in files below *within*, each once."""
    found: dict[Moment, None] = {}

    def line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and frame.f_code.co_code[frame.f_lasti] != _NOTHING:
            found.setdefault((frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_lineno))
        return line

    def entered(frame: FrameType, event: str, _: object) -> Any:
        return line if frame.f_code.co_filename.startswith(within) else None

    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(None)
    return list(found)


class Interrupts:
    """What :func:`interrupted` did.

    Attributes:
        happened: Whether the block came to the moment.
        dropped: Whether Python dropped the exception, as where something is freed.
    """

    def __init__(self) -> None:
        self.happened = self.dropped = False


@contextmanager
def interrupted(moment: Moment, error: BaseException) -> Iterator[Interrupts]:
    """Raise *error* at *moment* in this block, once; it leaves the block as it was raised, or the block fails."""
    told = Interrupts()
    file, first, wanted = moment

    def line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and frame.f_lineno == wanted and not told.happened:
            told.happened = True
            raise error
        return line

    def entered(frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        return line if code.co_firstlineno == first and code.co_filename == file and not told.happened else None

    def drop(unraisable: Any) -> None:
        told.dropped = told.dropped or unraisable.exc_value is error

    before, sys.unraisablehook = sys.unraisablehook, drop
    sys.settrace(entered)
    try:
        yield told
        sys.settrace(None)
        assert told.dropped or not told.happened, f"nobody was told of {error!r} at {moment}"
    except BaseException as raised:
        sys.settrace(None)
        if raised is not error:
            raise
    finally:
        sys.settrace(None)
        sys.unraisablehook = before
