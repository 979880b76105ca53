"""Opening of the engines that options name: the first step of compiling and loading."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from clgraph.core import cache_folder
from clgraph.core.digests import blake2
from clgraph.core.version import __version__
from clgraph.engines.contradictions import in_use_of
from clgraph.engines.option_checks import LOGGING, check_options
from clgraph.engines.records import is_dry, recorded
from clgraph.errors import DeviceError, OptionError
from clgraph.extensions.plugins import load_module, load_plugins
from clgraph.runtime.device import HOST, Device, find_device, with_class
from clgraph.runtime.driver import choose_options, loading
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.selector.costs import class_of
from clgraph.selector.query import DeviceInfo
from clgraph.selector.tuning import Tuning, read_tuning
from clgraph.settings import Settings, bytes_of, settings

if TYPE_CHECKING:
    from clgraph.runtime.callers_queue import CallersQueue


_TARGETS = "clgraph.passes.targets.target"
"""Where targets register themselves: there are none before somebody has imported it."""


def load_extensions(options: Settings) -> None:
    """Import the plugins and modules that *options* name. Raises ``RegistrationError`` for a module that fails."""
    load_plugins(options.plugins)
    for module in options.modules:
        load_module(module)


def options_of(
    device: str | int = "auto",
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the environment's options with those of a call in front; raises ``OptionError`` for what is none."""
    if config and config.get("log_level") is not None:
        level = str(config["log_level"]).upper()
        raise OptionError(f"log_level={config['log_level']} does nothing: {LOGGING.format(level=level)}")
    return (
        settings()
        .with_(**dict(config or {}))
        .with_(
            device=None if device == "auto" else device,
            threads=threads,
            cache_dir=None if cache_dir is None else Path(cache_dir),
        )
    )


def callers_queue(device: str | int, context: Any, queue: Any) -> CallersQueue | None:
    """Return the device of a caller's *context* or *queue*, with a name to open it by; ``None`` without either.

    Whoever opens the device must hold it until then.

    Raises:
        OptionError: There is a *device* as well.
        DeviceError: As :func:`clgraph.runtime.callers_queue.adopt`.
    """
    if context is None and queue is None:
        return None
    if device != "auto":
        raise OptionError(f"a context or a queue determines the device: leave out device={device!r}")
    from clgraph.runtime.callers_queue import adopt

    return adopt(context, queue)


def loading_drivers(options: Settings) -> AbstractContextManager[None]:
    """Return what loads drivers beside a block that will open engines; nothing where none but the host's is asked."""
    only_host = all(name.lower() == HOST.info.name for name in _names(options))
    return nullcontext() if is_dry(options) or only_host else loading(options)


def open_engines(options: Settings) -> dict[str, Engine | HostEngine]:
    """Return the engines of all devices that *options* name, the default one first, and of the host unless strict.

    For a dry run there is none.

    Raises:
        DeviceError: There is no such device, or its driver does not open it.
        OptionError: An option contradicts the devices, or another one.
    """
    if is_dry(options):
        check_options(options, in_use_of(options, [recorded(options)]))
        return {}
    choose_options(options)
    names = _names(options)
    wanted = dict.fromkeys(find_device(name) for name in names)
    kinds = _classes(options, wanted)
    classed = [with_class(d, kinds.get(d.info.name, kinds[""])) for d in wanted if d is not HOST]
    found: list[Engine | HostEngine] = [
        HostEngine(d.info) if d.handle is None else _engine(d, options.threads, options.out_of_order) for d in classed
    ]
    if find_device(names[0]) is HOST:
        found.insert(0, HostEngine())
    elif HOST in wanted or not options.strict:
        found.append(HostEngine())
    check_options(options, in_use_of(options, [engine.info for engine in found]))
    return {engine.info.name: engine for engine in found}


def device_infos(engines: Mapping[str, Engine | HostEngine], options: Settings) -> dict[str, DeviceInfo]:
    """Return the device profiles by placement, with the times that ``clgraph tune`` measured."""
    found = {}
    if is_dry(options):
        info = recorded(options)
        found[info.name] = by_class(info) if options.tuning == "off" else info
    for name, engine in engines.items():
        found[name] = info = engine.info
        if options.tuning == "off":
            found[name] = by_class(info)
        elif isinstance(engine, Engine):
            tuning = tuning_of(engine.device, options)
            found[name] = info if tuning is None else with_tuning(info, tuning)
    if _TARGETS not in sys.modules:
        return found
    from clgraph.passes.targets.target import with_profiles

    return with_profiles(found)


def tuning_of(device: Device, options: Settings) -> Tuning | None:
    """Return what was measured on *device*; a file that *options* name may be anybody's, one in the cache not."""
    read = Path.read_bytes if _names_file(options.tuning) else cache_folder.read
    return read_tuning(tuning_path(device, options), tuning_identity(device), read)


def tuning_path(device: Device, options: Settings) -> Path:
    """Return where the tuning of *device* is: the file that *options* name, or one of its own in the cache folder."""
    if _names_file(options.tuning):
        return Path(options.tuning).expanduser()
    identity = tuning_identity(device)
    digest = blake2("\0".join(identity.values()).encode()).hexdigest()[:12]
    return cache_folder.cache_folder(options.cache_dir) / "tuning" / f"{identity['class']}-{digest}.json"


def _names_file(tuning: str) -> bool:
    return tuning not in ("auto", "off")


def tuning_identity(device: Device) -> dict[str, str]:
    """Return what a tuning is valid for: device, driver, device class, version of clgraph."""
    info = device.info
    return {
        "device": device.label,
        "driver": info.driver,
        "class": class_of(info.name, info.kind, info.vendor, info.simd),
        "clgraph": __version__,
    }


def with_tuning(info: DeviceInfo, tuning: Tuning) -> DeviceInfo:
    """Return *info* with *tuning*, and the peaks that were fitted."""
    costs = tuning.costs
    if costs is None:
        return replace(info, tuning=tuning)
    # A class whose peak goes by the driver's clock keeps it.
    flops = info.flops if costs.flops_a_cycle else costs.flops(min(info.workers, info.cores or info.workers), 0.0)
    bandwidth = costs.bandwidth(flops)
    return replace(info, tuning=tuning, flops=flops, bytes_per_second=bandwidth, launch_seconds=costs.launch_seconds)


def by_class(info: DeviceInfo) -> DeviceInfo:
    """Return *info* with the figures of its device class in place of what the canary measured."""
    plain = replace(info, rates=None)
    if info.rates is None or plain.costs.flops_a_cycle:
        return plain
    flops = plain.costs.flops(min(info.workers, info.cores or info.workers), 0.0)
    return replace(plain, flops=flops, bytes_per_second=plain.costs.bandwidth(flops))


def placement_of(options: Settings) -> dict[str, Any]:
    """Return what ``Context`` holds about placement, with the devices by the names of their engines."""
    return {
        "placement": tuple((pattern, find_device(to).info.name) for pattern, to in options.placement),
        "fallback": tuple(find_device(name).info.name for name in options.placement_fallback),
        "free": tuple(find_device(name).info.name for name in several(options.device)),
    }


def budgets_of(options: Settings, devices: Collection[str]) -> dict[str, int]:
    """Return the bytes of ``placement_budget`` by placement; raises ``OptionError`` for others than *devices*."""
    found = {}
    for name, size in options.placement_budget:
        placement = find_device(name).info.name
        if placement not in devices:
            raise OptionError(
                f"placement_budget: nothing is placed on {placement}; the model's devices are {', '.join(devices)}"
            )
        try:
            found[placement] = bytes_of(size)
        except ValueError as error:
            raise OptionError(f"placement_budget: {error}") from error
    return found


def _classes(options: Settings, wanted: Collection[Device]) -> dict[str, str]:
    """Return the class of each device that ``device_class`` names, and under ``""`` that of the others.

    Raises:
        DeviceError: It names no device, or one that is not in use.
    """
    found = {"": "auto"}
    for item in options.device_class.split(","):
        name, equals, kind = item.strip().rpartition("=")
        device = find_device(name) if equals else None
        if device is not None and device not in wanted:
            used = ", ".join(d.info.name for d in wanted)
            raise DeviceError(f"device_class: nothing can be placed on {device.info.name}; in use are {used}")
        found[device.info.name if device else ""] = kind
    return found


def _names(options: Settings) -> list[str]:
    """Return the names of the devices that *options* ask for, the default one first."""
    return [*several(options.device), *(to for _, to in options.placement), *options.placement_fallback]


def several(device: str) -> list[str]:
    """Return the devices that the option *device* names."""
    return [name.strip() for name in device.split(",") if name.strip()] or ["auto"]


def _engine(device: Device, threads: int | None, out_of_order: bool) -> Engine:
    """Return the engine of a device, or of a caller's context, which lives no longer than what uses it."""
    if device.callers is None:
        return _open(device, threads, out_of_order)
    key = (device.callers.context.int_ptr, device.handle.int_ptr, device.info.kind, threads, out_of_order)
    made = _OF_CALLERS.get(key)
    if made is not None and made.device.callers is not device.callers:
        return made.on(device.callers)
    if made is None:
        made = _OF_CALLERS[key] = Engine(device, threads, out_of_order=out_of_order)
    return made


_OF_CALLERS: WeakValueDictionary[tuple[Any, ...], Engine] = WeakValueDictionary()
"""The engine that was opened first in each context of a caller's: the others have its kernels."""


@functools.lru_cache(maxsize=8)
def _open(device: Device, threads: int | None, out_of_order: bool) -> Engine:
    """Return the engine of a device: models share it, so that each kernel is loaded once a process."""
    return Engine(device, threads, out_of_order=out_of_order)
