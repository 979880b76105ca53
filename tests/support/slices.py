"""Parts of what a tool does for hours: every so many-th of it, or what an interrupted run has left."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

FIRST_WORD = re.compile(r"(?:\| `?)?([\w.\-]+)")
"""Of a line, or of a row of a table; what is indented belongs to the line before."""


def add_parts(parser: argparse.ArgumentParser, what: str, *, resumed: bool = True) -> None:
    """Add the options ``--slice`` and, where the tool prints a line for each of *what* in turn, ``--resume``."""
    parser.add_argument("--slice", type=_slice, default=(1, 1), help=f"of the {what}: 2/5 is the second of every five")
    if resumed:
        parser.add_argument("--resume", type=Path, metavar="FILE", help="go on behind what FILE, an output, ends with")


def chosen(options: argparse.Namespace, items: Sequence[T], name: Callable[[T], str] = str) -> list[T]:
    """Return what the options of :func:`add_parts` leave of *items*, which lines of the output begin with *name* of.

    The last one in the output of an interrupted run comes again: its lines may not be whole.
    """
    part, parts = options.slice
    left = list(items)[part - 1 :: parts]
    if getattr(options, "resume", None) is None:
        return left
    names = [name(item) for item in left]
    begun = {word[1] for line in options.resume.read_text("utf-8").splitlines() if (word := FIRST_WORD.match(line))}
    return left[max((i for i, n in enumerate(names) if n in begun), default=0) :]


def told(what: str, items: Sequence[T]) -> Iterator[T]:
    """Yield *items*; say on the error stream how many of them are done, and for how long, before each but the first."""
    start = time.monotonic()
    for done, item in enumerate(items):
        if done:
            print(f"{done} of {len(items)} {what}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        yield item


def _slice(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    part, parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= part <= parts:
        raise argparse.ArgumentTypeError(f"{text!r} is not a slice such as 2/5")
    return part, parts
