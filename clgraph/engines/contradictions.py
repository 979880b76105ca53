"""Options that contradict the devices in use, or other options, so that they can do nothing there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.runtime.process import chosen_options
from clgraph.runtime.wheel import NAME, wheel
from clgraph.selector.query import PTX, SM80, DeviceInfo
from clgraph.settings import PRODUCT_PRECISIONS, Settings

_DRY = "null"


@frozen
class InUse:
    """The devices that nodes may be placed on.

    Attributes:
        devices: Their profiles, as classed by the options.
        dry: Nothing is run.
    """

    devices: tuple[DeviceInfo, ...]
    dry: bool = False

    @property
    def names(self) -> str:
        """What they are called, and the class of their kernels."""
        if self.dry:
            return _DRY
        return ", ".join(d.name if d.kind == d.name else f"{d.name} (class {d.kind})" for d in self.devices)

    def has(self, *kinds: str) -> bool:
        """Whether a device of one of these classes runs kernels."""
        return not self.dry and any(d.kind in kinds for d in self.devices)


Contradiction = Callable[[Settings, InUse], str]
"""Says why an option that was given cannot do anything on the devices in use; empty where it can."""


def in_use_of(options: Settings, devices: Iterable[DeviceInfo]) -> InUse:
    """Return the *devices* as they are in use under *options*."""
    return InUse(tuple(devices), dry=options.device == _DRY)


def contradictions(options: Settings, in_use: InUse) -> dict[str, str]:
    """Return why each of the given options can do nothing on the devices in use, by its name; not those that can."""
    found = {name: CONTRADICTS[name](options, in_use) for name in given(options, CONTRADICTS)}
    return {name: why for name, why in found.items() if why}


def given(options: Settings, names: Iterable[str]) -> list[str]:
    """Return which of the options *names* differ from their defaults."""
    return [name for name in names if getattr(options, name) != getattr(Settings, name)]  # the class has the defaults


def spell(value: Any) -> str:
    """Return the value of an option as its variable has it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    if isinstance(value, tuple):
        return ",".join("=".join(item) if isinstance(item, tuple) else str(item) for item in value)
    return str(value)


def _needs(kinds: Collection[str], what: str) -> Contradiction:
    def why(options: Settings, in_use: InUse) -> str:
        if in_use.has(*kinds):
            return ""
        return f"{what}; in use is {in_use.names}"

    return why


def _products(options: Settings, in_use: InUse) -> str:
    """Refuse precisions of matrix units on devices without them."""
    if options.precision not in PRODUCT_PRECISIONS:
        return ""
    needed, capability = (SM80, "8.0") if options.precision == "tf32x3" else (PTX, "7.5")
    if any(d.features >= needed for d in in_use.devices):
        return ""
    return f"it is about NVIDIA's matrix units (compute capability {capability} and up); in use is {in_use.names}"


def _classes(options: Settings, in_use: InUse) -> str:
    if in_use.dry:
        return "the device null takes one class, cpu or gpu" if "=" in options.device_class else ""
    return "" if in_use.has("cpu", "gpu") else f"no kernels are chosen for {in_use.names}, which runs references"


def _strict(options: Settings, in_use: InUse) -> str:
    named = any(d.name == "host" for d in in_use.devices)
    return "the host is asked for by name, as a device of the model, a placement or a fallback" if named else ""


def _isa(options: Settings, in_use: InUse) -> str:
    if wheel() is None or not any(d.name.partition("/")[0] == NAME for d in in_use.devices):
        return f"it is about the PoCL that pip installs; in use is {in_use.names}"
    loaded = chosen_options().pocl_isa
    if loaded != options.pocl_isa:
        return f"PoCL was loaded for {loaded or 'the CPU as it is'} before in this process; it is loaded once"
    return ""


CONTRADICTS: Mapping[str, Contradiction] = {
    "command_buffers": _needs(("cpu", "gpu"), "OpenCL devices record launches"),
    "device_class": _classes,
    "dump_data": lambda o, _: "" if o.dump_graphs else "weights are written beside dumped programs: give dump_graphs",
    "executor": _needs(("cpu",), "tile functions run on devices of the class cpu"),
    "out_of_order": lambda o, d: "" if d.dry else _needs(("cpu", "gpu"), "OpenCL devices have queues")(o, d),
    "pocl_isa": _isa,
    "poison": _needs(("cpu", "gpu"), "it is about the memory of OpenCL devices"),
    "precision": _products,
    "strict": _strict,
    "threads": _needs(("cpu",), "workers are those of devices of the class cpu"),
    "weight_group": lambda o, _: "floats have no scale: give weights" if o.weights == Settings.weights else "",
    "tuning": lambda o, d: "" if o.tuning == "off" else _needs(("cpu", "gpu"), "kernels are tuned")(o, d),
}
"""Options that some devices, or other options, leave nothing to do."""

OF_KERNELS = frozenset(CONTRADICTS) - {"dump_data", "strict", "weight_group"}
"""Those of them that are about kernels, which neither the host nor null runs."""
