"""Engines of PoCL as a GPU whose kernels are compiled without LLVM's optimiser."""

from __future__ import annotations

import functools

from clgraph.engines.opening import _open
from clgraph.runtime.device import Device
from clgraph.runtime.engine import Engine


class QuickEngine(Engine):
    """An engine that compiles kernels in a fifth of the time; they round products and sums apart."""

    flags = " -cl-opt-disable"


def quick(device: Device) -> type[Engine]:
    """Return the class of a device's engine: a quick one of PoCL as a GPU."""
    return QuickEngine if device.info.kind == "gpu" and device.info.name.startswith("pocl") else Engine


@functools.lru_cache(maxsize=8)
def opened(device: Device, threads: int | None, out_of_order: bool) -> Engine:
    """Return the engine of a device: a quick one of PoCL as a GPU, else what ``clgraph.compile`` opens."""
    if quick(device) is Engine:
        return _open(device, threads, out_of_order)
    return QuickEngine(device, threads, out_of_order=out_of_order)
