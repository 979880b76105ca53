"""The cost model: the figures of a device class that times are estimated by. Data, shipped as JSON or fitted."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import MISSING, field
from pathlib import Path
from typing import Any

from clgraph.core.frozen import changed, fields_of, frozen
from clgraph.errors import OptionError, RegistrationError

_SHIPPED = Path(__file__).parents[1] / "data" / "costs"
_BF16_PRODUCTS = 2.0
"""What ``vdpbf16ps`` gains where nothing was measured."""
_AMX_PRODUCTS = 13.0
"""The same of ``tdpbf16ps``."""
_BYTE_PRODUCTS = 1.3
"""The same of ``vpmaddubsw`` and ``vpmaddwd``."""


@frozen
class Rates:
    """Rates measured on one device.

    Attributes:
        worker_flops: Additions and multiplications a second of one worker, while all of them work.
        bandwidths: Bytes that workers read from memory a second, by their number, ascending.
        bf16_products: Multiply-adds of bfloat16 in the time of one of float32, where the CPU has ``vdpbf16ps``.
        fetching: How many times as fast a worker reads between much arithmetic where the kernel fetches lines ahead as
            where that is left to the core; 1 where it was not measured.
        cached: Bytes a second that a worker reads from a cache that all share; ``None`` where it was not measured.
        amx_products: Multiply-adds of bfloat16 by tile registers in the time of one of float32; ``None`` likewise.
        byte_products: Multiply-adds of bytes in the time of one of float32 by ``vpmaddubsw``, where the CPU has no
            ``vpdpbusd``; ``None`` likewise.
        loaded_products: Multiply-adds of vectors that load an operand each in the time of one that loads none; ``None``
            likewise.
    """

    worker_flops: float
    bandwidths: tuple[tuple[int, float], ...]
    bf16_products: float = _BF16_PRODUCTS
    fetching: float = 1.0
    cached: float | None = None
    amx_products: float | None = None
    byte_products: float | None = None
    loaded_products: float | None = None

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Rates:
        """Return the rates that JSON holds; raises ``KeyError``, ``TypeError``, ``ValueError`` where it holds none."""
        bandwidths = tuple((int(workers), float(rate)) for workers, rate in data["bandwidths"])
        pairs, fetching = float(data.get("bf16_products", _BF16_PRODUCTS)), float(data.get("fetching", 1.0))
        names = ("cached", "amx_products", "byte_products", "loaded_products")
        further = (None if data.get(x) is None else float(data[x]) for x in names)
        return Rates(float(data["worker_flops"]), bandwidths, pairs, fetching, *further)

    def bandwidth(self, workers: int) -> float:
        """Return the bytes a second of *workers*: of the largest measured number that is not larger."""
        return next((rate for count, rate in reversed(self.bandwidths) if count <= workers), self.bandwidths[0][1])


@frozen(kw_only=True)
class CostModel:
    """Figures of a class of devices, or fitted for one device; times in seconds, rates a second.

    Attributes:
        name: The class: ``pocl-avx512``; ``origin`` says where the figures come from: ``shipped``, ``shipped, rates
            measured``, or ``fitted ...``.
        worker_flops: Additions and multiplications of one worker (a CPU's core, a GPU's compute unit) at its peak.
        flops_a_cycle, bytes_a_flop: In place of absolute figures where the devices of a class differ: a worker's peak
            for each cycle of the clock that the driver reports; bytes from memory for each operation of all workers.
        bytes_per_second: Between memory and all workers; ``cache_bytes_per_second`` between a cache that they share
            and one worker, for what is not larger than ``cache_bytes`` and was written by the step before.
        shared_bytes_per_second: Between that cache and one worker, for what goes by its core's own cache; as
            ``cache_bytes_per_second`` where it was not measured.
        launch_seconds: Starting a kernel; ``step_seconds`` passing from one tile step to the next inside a launch.
        ticket_low, ticket_high: Shortest and longest ticket wanted: shorter ones cost more to draw than they even out.
        tickets: How many tickets a worker should have of a step.
        bf16_products: Multiply-adds of bfloat16 in the time of one of float32, on CPUs that have ``vdpbf16ps``: 2 on
            Zen 4 and 5, half of one on Sapphire Rapids.
        amx_products: The same by the tile registers of CPUs that have AMX.
        byte_products: Multiply-adds of bytes in the time of one of float32 by ``vpmaddubsw`` and ``vpmaddwd``, on CPUs
            without VNNI: 1.3 on Emerald Rapids, 2 on Zen 5.
        general_compute, general_traffic: The shares of the peaks that general kernels reach.
        units: What one piece of work of a tile function takes one worker, by name; what a piece is, its cost says.
        scales: Measured by estimated time beyond a step's begin, by implementation; 1 for those not named.
    """

    name: str
    origin: str = "shipped"
    worker_flops: float
    bytes_per_second: float
    cache_bytes: float
    cache_bytes_per_second: float
    launch_seconds: float
    step_seconds: float
    flops_a_cycle: float | None = None
    bytes_a_flop: float | None = None
    shared_bytes_per_second: float | None = None
    ticket_low: float = 2.0e-6
    ticket_high: float = 10.0e-6
    tickets: int = 8
    bf16_products: float = _BF16_PRODUCTS
    amx_products: float = _AMX_PRODUCTS
    byte_products: float = _BYTE_PRODUCTS
    general_compute: float
    general_traffic: float
    units: Mapping[str, float] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the hash once: queries are hashed all the time, and the model is part of them."""
        values = (getattr(self, f.name) for f in fields_of(type(self)).values() if f.compare)
        found = hash(tuple(tuple(sorted(v.items())) if isinstance(v, Mapping) else v for v in values))
        object.__setattr__(self, "_hash", found)

    def __hash__(self) -> int:
        return self._hash

    def flops(self, workers: int, gigahertz: float) -> float:
        """Return the peak of a device with so many workers that can run at once, and a clock."""
        return workers * (self.worker_flops if self.flops_a_cycle is None else self.flops_a_cycle * gigahertz * 1e9)

    def bandwidth(self, flops: float) -> float:
        """Return the bytes a second between memory and a device of that peak."""
        return self.bytes_per_second if self.bytes_a_flop is None else self.bytes_a_flop * flops

    def unit(self, name: str) -> float:
        """Return the seconds of one piece of work called *name*; of the shipped CPU model where this one has none.

        Raises:
            RegistrationError: No model has a piece of that name.
        """
        if (found := self.units.get(name)) is not None:
            return found
        known = shipped("pocl-avx512").units
        if name not in known:
            from clgraph.core.nearest import meant

            near = meant(name, known) or f"; the units are {', '.join(sorted(known))}"
            raise RegistrationError(f"no cost model has a unit called {name!r}{near}")
        return known[name]

    def rated(self, rates: Rates, workers: int) -> CostModel:
        """Return the model with measured *rates* of *workers*.

        What the caches deliver, and the pieces of work of tile functions, go by a core's speed as its products do.
        Models whose peaks go by the clock are of devices whose pieces were timed on one of them: those stay.
        """
        changes: dict[str, Any] = {"worker_flops": rates.worker_flops, "bytes_per_second": rates.bandwidth(workers)}
        changes["bf16_products"] = rates.bf16_products
        if self.flops_a_cycle is None:
            faster = rates.worker_flops / self.worker_flops
            changes["units"] = {name: seconds / faster for name, seconds in self.units.items()}
            changes["cache_bytes_per_second"] = self.cache_bytes_per_second * faster
        if rates.amx_products is not None:
            changes["amx_products"] = rates.amx_products
        if rates.byte_products is not None:
            changes["byte_products"] = rates.byte_products
        if rates.cached is not None:
            changes["shared_bytes_per_second"] = rates.cached
        return changed(self, origin="shipped, rates measured", flops_a_cycle=None, bytes_a_flop=None, **changes)

    def to_data(self) -> dict[str, Any]:
        """Return the model as JSON data."""
        data = {f.name: getattr(self, f.name) for f in fields_of(type(self)).values() if f.init and f.name != "origin"}
        data = {name: value for name, value in data.items() if value is not None}
        return data | {"units": dict(sorted(self.units.items())), "scales": dict(sorted(self.scales.items()))}

    @staticmethod
    def from_data(data: Any, origin: str) -> CostModel:
        """Return the model that JSON *data* holds.

        Args:
            data: What its JSON holds.
            origin: What :attr:`origin` is to say.

        Raises:
            OptionError: It is no cost model; names the field.
        """
        if not isinstance(data, dict):
            raise OptionError("a cost model is an object of fields")
        wanted = {f.name: f for f in fields_of(CostModel).values() if f.init and f.name != "origin"}
        needed = {n for n, f in wanted.items() if f.default is MISSING and f.default_factory is MISSING}
        if wrong := sorted(data.keys() - wanted.keys() | needed - data.keys()):
            raise OptionError(f"the field {wrong[0]!r} of the cost model is missing or unknown")
        for name, value in data.items():
            if not _fits(name, value):
                kind = _KINDS.get(name, "a number above 0")
                raise OptionError(f"{name} of the cost model must be {kind}, not {value!r}")
        return CostModel(origin=origin, **data)


_KINDS = {"name": "a text", "units": "numbers above 0 by name", "scales": "numbers above 0 by name"}


def _fits(name: str, value: Any) -> bool:
    if name == "name":
        return isinstance(value, str)
    if name in _KINDS:
        return isinstance(value, dict) and all(_fits("", v) for v in value.values())
    return isinstance(value, int | float) and not isinstance(value, bool) and 1e-30 < value < 1e30


@functools.cache
def shipped(name: str) -> CostModel:
    """Return the model that comes with clgraph for the device class *name*; raises ``OptionError`` for no class."""
    if name not in CLASSES:
        raise OptionError(f"{name!r} is not a device class; there are {', '.join(CLASSES)}")
    text = (_SHIPPED / f"{name}.json").read_text(encoding="utf-8")
    return CostModel.from_data(json.loads(text), "shipped")


CLASSES = ("pocl-avx512", "pocl-avx2", "intel-cpu", "cpu", "gpu", "nvidia")
"""The device classes with a shipped model."""


@functools.lru_cache(maxsize=64)
def rated(name: str, rates: Rates, workers: int) -> CostModel:
    """Return the shipped model of the class *name* with the *rates* of one device that uses so many *workers*."""
    return shipped(name).rated(rates, workers)


@functools.cache
def class_of(name: str, kind: str, vendor: str, simd: int) -> str:
    """Return the class of the device called *name*."""
    if kind == "gpu":
        return "nvidia" if "nvidia" in vendor.lower() else "gpu"
    if kind == "host" or simd < 8:
        return "cpu"
    if name.startswith("intel"):
        return "intel-cpu"
    return "pocl-avx512" if simd >= 16 else "pocl-avx2"
