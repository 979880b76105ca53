"""Devices of dry runs: a program is compiled for a recorded device profile, and nothing is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from clgraph.errors import DeviceError, OptionError
from clgraph.runtime.device import Device, with_class, with_workers
from clgraph.runtime.instruction_sets import instruction_sets
from clgraph.selector.costs import Rates
from clgraph.selector.query import DeviceInfo
from clgraph.settings import DEVICE_CLASSES, Settings

_OF_POCL = frozenset({"acq_rel", "cycle_counter", "fp64", "host_memory", "opencl_c_30", "prefetch", "yield"})
"""Features that PoCL's device has whatever the CPU is."""


def is_dry(options: Settings) -> bool:
    """Whether this is a dry run: for a recorded device, or for none."""
    return options.device.partition(":")[0] == "null"


def recorded(options: Settings) -> DeviceInfo:
    """Return the device that a dry run compiles for, of the class and with the workers that *options* ask for.

    ``null`` is an imagined CPU or GPU; ``null:avx2`` PoCL's device of a CPU with that instruction set, and a core for
    each of the threads;
    ``null:FILE.json`` the device that ``clgraph devices --json`` has listed there, the one that ``auto`` took unless a
    name stands behind it: ``null:FILE.json#gpu:0``.

    Raises:
        DeviceError: There is no such instruction set, file or device.
        OptionError: Devices of several classes are asked for.
    """
    _, _, record = options.device.partition(":")
    if not record:
        return (
            DeviceInfo(kind="gpu", simd=1, global_bytes=0)
            if options.device_class == "gpu"
            else DeviceInfo(global_bytes=0)
        )
    if options.device_class not in DEVICE_CLASSES:
        raise OptionError(f"device_class={options.device_class}: a dry run has one device, and so one class")
    path, _, name = record.partition("#")
    info = _listed(Path(path), name) if path.endswith(".json") else _of_instruction_set(record, options.threads)
    device = with_class(Device(info, record), options.device_class)
    return with_workers(device, options.threads).info


def _of_instruction_set(name: str, threads: int | None) -> DeviceInfo:
    known = {each.name: each for each in instruction_sets()}
    if name not in known:
        from clgraph.core.nearest import meant

        raise DeviceError(
            f"nothing is known of a device null:{name}{meant(name, known)}; there are null, null:FILE.json with what "
            f"`clgraph devices --json` has printed, and {', '.join(f'null:{n}' for n in known)}"
        )
    features, cores = known[name].features | _OF_POCL, threads or DeviceInfo().workers
    return DeviceInfo(
        "pocl:0", simd=known[name].simd, features=features, global_bytes=0, compute_units=cores, workers=cores
    )


def _listed(path: Path, name: str) -> DeviceInfo:
    """Return the device called *name* of those listed in a file, the one that ``auto`` took where none is named."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = {row["info"]["name"]: _info(row["info"]) for row in rows}
        auto = next((row["info"]["name"] for row in rows if row["auto"]), "")
    except OSError as error:
        raise DeviceError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DeviceError(
            f"{path} is not a list of devices as printed by `clgraph devices --json`: {error!r}"
        ) from error
    wanted = name or auto
    if wanted not in found:
        raise DeviceError(f"{path} has no device {wanted!r}; there are {', '.join(found) or 'none'}")
    return found[wanted]


def _info(row: Mapping[str, Any]) -> DeviceInfo:
    """Return a device of what JSON holds of it, without what was tuned; what is missing is as for ``null``."""
    rates, usual = row.get("rates"), DeviceInfo()
    given = {f.name: row[f.name] for f in fields(DeviceInfo) if f.name in row and f.name not in ("rates", "tuning")}
    for field, value in given.items():
        wanted = type(getattr(usual, field))
        if wanted is frozenset:
            given[field] = frozenset(map(str, value))
        elif not isinstance(value, int | float if wanted is float else wanted) or isinstance(value, bool):
            raise TypeError(f"{field}={value!r} is no {wanted.__name__}")
    info = DeviceInfo(**given)
    if rates is None:
        return info
    return replace(info, rates=Rates.from_data(rates))
