"""From options to the engines that run a model: what compiling and loading begin with."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clgraph.runtime.device import HOST, Device, find_device, with_class
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
    """Return the engines of all devices that *options* name, the default one first, and of the host unless strict.

    Raises:
        DeviceError: There is no such device, or its driver does not open it.
    """
    choose_options(options)
    names = [*_several(options.device), *(to for _, to in options.placement), *options.placement_fallback]
    wanted = dict.fromkeys(find_device(name) for name in names)
    classed = [with_class(d, options.device_class) for d in wanted if d.info.kind != "host"]
    found: list[Engine | HostEngine] = [_open(d, options.threads, options.out_of_order) for d in classed]
    if find_device(names[0]).info.kind == "host":
        found.insert(0, HostEngine())
    elif HOST in wanted or not options.strict:
        found.append(HostEngine())
    return {engine.info.name: engine for engine in found}


def placement_of(options: Settings) -> dict[str, Any]:
    """Return what ``Context`` holds about placement, with the devices by the names of their engines."""
    return {
        "placement": tuple((pattern, find_device(to).info.name) for pattern, to in options.placement),
        "fallback": tuple(find_device(name).info.name for name in options.placement_fallback),
        "free": tuple(find_device(name).info.name for name in _several(options.device)),
    }


def _several(device: str) -> list[str]:
    return [name.strip() for name in device.split(",") if name.strip()] or ["auto"]


@functools.lru_cache(maxsize=8)
def _open(device: Device, threads: int | None, out_of_order: bool) -> Engine:
    """Return the engine of a device: models share it, so that each kernel is loaded once a process."""
    return Engine(device, threads, out_of_order=out_of_order)
