"""Waiting for what another thread does, for a while: a fault fails a test instead of hanging it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LONGEST = 20.0
"""Seconds; a loaded machine takes one at most."""


def until(happened: Callable[[], object]) -> None:
    """Wait until *happened*."""
    end = time.monotonic() + LONGEST
    while not happened():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.001)


async def soon(happened: Callable[[], object]) -> None:
    """Wait until *happened*, while the event loop goes on."""
    end = time.monotonic() + LONGEST
    while not happened():
        assert time.monotonic() < end, "it has not happened"
        await asyncio.sleep(0.001)
