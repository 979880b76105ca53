"""Long work of the tools that, when it is interrupted, ends with what it has so far."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

INTERRUPTED = 130
"""The status of a tool that was interrupted, as shells have it for ^C."""


@dataclass
class Work:
    """What a block does.

    Attributes:
        interrupted: Whether it was ended before its end.
    """

    interrupted: bool = False

    def status(self, wrong: object) -> int:
        """Return the status of a tool whose work this is, and that has found something *wrong* or not."""
        return INTERRUPTED if self.interrupted else int(bool(wrong))


@contextmanager
def interruptible() -> Iterator[Work]:
    """Run the block until its end, ^C or SIGTERM, which ``timeout`` and CI send; what follows it runs in any case."""
    work = Work()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield work
    except KeyboardInterrupt:
        work.interrupted = True
        print("interrupted", file=sys.stderr, flush=True)
    finally:
        signal.signal(signal.SIGTERM, before)
