"""Implementations of operators, in a package for each kind of device; the general ones are in ``ops``.

A module is called like the primitive that it implements, with ``_`` and more behind where there are several.
It is imported when an implementation of that primitive for such a device is looked for.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable

from clgraph.core.part import modules_in
from clgraph.ops import modules_of
from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.micro_kernels import FAMILIES

PACKAGES = {
    "cpu": ("cpu", "portable"),
    "gpu": ("gpu", "portable", "matrix_units.nvidia", "matrix_units.intel", "matrix_units.amd"),
}
"""Where implementations for each kind of device are."""


def implementing(kind: str | None, device_kind: str | None = None) -> Iterable[str]:
    """Return the modules that implement the primitive *kind* on devices of *device_kind*; all for ``None``."""
    kinds = PACKAGES if device_kind is None else (device_kind,)
    packages = dict.fromkeys(package for name in kinds for package in PACKAGES.get(name, ("portable",)))
    beside = [
        f"{__name__}.{package}.{name}"
        for package in packages
        for name in _modules(package)
        if kind is None or name == kind or name.startswith(f"{kind}_")
    ]
    return [*modules_of(kind), *beside]


def tiling(function: str | None, part: str | None = None) -> Iterable[str]:
    """Return the modules that declare tile functions and micro-kernels: a library has those of all."""
    return [f"{__name__}.cpu.{name}" for name in _modules("cpu")]


@functools.cache
def _modules(package: str) -> tuple[str, ...]:
    found = importlib.util.find_spec(f"{__name__}.{package}")
    folders = found.submodule_search_locations if found else None
    return tuple(sorted(name for name in modules_in(folders or ()) if "." not in name))


IMPLEMENTATIONS.found_by(implementing)
DESCRIPTORS.found_by(tiling)
FAMILIES.found_by(tiling)
