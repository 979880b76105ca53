"""Engines of PoCL whose kernels are compiled without LLVM's optimiser; libraries are those of users."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clgraph.engines.opening import _open
from clgraph.runtime.device import Device
from clgraph.runtime.engine import Engine
from tests.support import quick_code


class QuickEngine(Engine):
    """An engine that compiles kernels in a quarter of the time; they round products and sums apart."""

    flags = " -cl-opt-disable"

    def __init__(self, device: Device, *args: Any, **named: Any) -> None:
        """Open *device*, whose PoCL compiles quickly from then on where that is wanted."""
        super().__init__(device, *args, **named)
        quick_code.know(device.handle.platform)


def quick(device: Device) -> type[Engine]:
    """Return the class of a device's engine: a quick one of PoCL."""
    return QuickEngine if device.info.name.startswith("pocl") else Engine


@functools.lru_cache(maxsize=8)
def opened(device: Device, threads: int | None, out_of_order: bool) -> Engine:
    """Return the engine of a device: a quick one of PoCL, else what ``clgraph.compile`` opens."""
    if quick(device) is Engine:
        return _open(device, threads, out_of_order)
    return QuickEngine(device, threads, out_of_order=out_of_order)


@contextmanager
def optimised(engine: QuickEngine) -> Iterator[Engine]:
    """Yield an engine of the same device whose kernels, compiled and first run in the block, are those of users."""
    quick_code.let(False)
    try:
        yield _open(engine.device, None, False)
    finally:
        quick_code.let(True)
