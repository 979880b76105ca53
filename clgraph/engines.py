"""From options to the engines that run a model: what compiling and loading begin with."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clgraph.runtime.device import Device, find_device, with_class
from clgraph.runtime.driver import choose_options
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.settings import Settings, settings


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Hold off Python's search for cyclic garbage: a compilation makes many objects, and nearly all of them live on."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def options_of(
    device: str | int = "auto",
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the environment's options with those of a call in front; raises ``OptionError`` for what is none."""
    return (
        settings()
        .with_(**dict(config or {}))
        .with_(
            device=None if device == "auto" else device,
            threads=threads,
            cache_dir=None if cache_dir is None else Path(cache_dir),
        )
    )


def open_engines(options: Settings) -> dict[str, Engine | HostEngine]:
    """Return the engines of the device that *options* select and, unless they are strict, of the host.

    Raises:
        DeviceError: There is no such device, or its driver does not open it.
    """
    choose_options(options)
    device = find_device(options.device)
    found: list[Engine | HostEngine] = []
    if device.info.kind != "host":
        device = with_class(device, options.device_class)
        found.append(_open(device, options.threads, options.out_of_order))
    if not (found and options.strict):
        found.append(HostEngine())
    return {engine.info.name: engine for engine in found}


@functools.lru_cache(maxsize=8)
def _open(device: Device, threads: int | None, out_of_order: bool) -> Engine:
    """Return the engine of a device: models share it, so that each kernel is loaded once a process."""
    return Engine(device, threads, out_of_order=out_of_order)
