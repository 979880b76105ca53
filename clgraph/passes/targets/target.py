"""Targets: what third-party packages add for their devices, and the compilation phases they hook into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from clgraph.core.frozen import frozen
from clgraph.core.registry import Registry
from clgraph.errors import RegistrationError
from clgraph.selector.query import VIRTUAL_DEVICES, DeviceInfo

if TYPE_CHECKING:
    from clgraph.core.format import Format
    from clgraph.passes.base import Pass


class Phase(Enum):
    """Where in the pipeline a target's passes run; the first, third, fourth and fifth are those of ONNC's backends."""

    TENSOR_SELECTION = "tensor_selection"
    """Behind partition: operators become the target's own, before anything is fused."""
    LAYOUT = "layout"
    """Behind the choice of formats: the program as it will be compiled."""
    SCHEDULING = "scheduling"
    """Behind the choice of kernels: the order of execution."""
    MEMORY_ALLOCATION = "memory_allocation"
    """Behind the memory dependencies: buffers and who may share, before they get their places."""
    CODE_EMISSION = "code_emission"
    """Behind the memory plan, in front of building the kernels."""


@frozen
class TargetPass:
    """A pass of a target: its phase, and behind which other pass of the target in that phase it runs.

    Those that name none run in the order in which the target lists them.
    """

    phase: Phase
    run: Pass
    after: str | None = None


Desired = Callable[[int], "Format"]
"""The memory format that a target would like for tensors of a rank."""


@frozen
class Target:
    """A kind of device with what is particular to it; primitives, implementations and kernels register themselves.

    Attributes:
        name: Of the target, in dumps and messages.
        matches: Which devices are its own, by their profile.
        passes: What it hooks into the phases; run when a program has nodes on such a device.
        layouts: By kind of primitive, ``*`` for all others: the preferred format of results wherever an
            implementation proposes it.
        profile: Changes the profile of its devices: features that its implementations ask for, figures for costs.
        devices: Devices that no driver knows. They run nodes by their references.
    """

    name: str
    matches: Callable[[DeviceInfo], bool]
    passes: tuple[TargetPass, ...] = ()
    layouts: Mapping[str, Desired] = field(default_factory=dict)
    profile: Callable[[DeviceInfo], DeviceInfo] | None = None
    devices: tuple[DeviceInfo, ...] = ()

    def at(self, phase: Phase) -> list[Pass]:
        """Return the passes of *phase* in the order in which they run.

        Raises:
            RegistrationError: A pass is declared to run behind one that is not there, or two behind each other.
        """
        waiting = [p for p in self.passes if p.phase is phase]
        order: list[TargetPass] = []
        while waiting:
            done = {p.run.name for p in order}
            ready = next((p for p in waiting if p.after is None or p.after in done), None)
            if ready is None:
                names = ", ".join(f"{p.run.name} behind {p.after}" for p in waiting)
                raise RegistrationError(f"target {self.name}: no order in {phase.value} fits {names}")
            order.append(ready)
            waiting.remove(ready)
        return [p.run for p in order]

    def desired(self, kind: str, rank: int) -> Format | None:
        """Return the format that results of primitives of *kind* should have; ``None`` for no preference."""
        preferred = self.layouts.get(kind, self.layouts.get("*"))
        return None if preferred is None else preferred(rank)


TARGETS: Registry[str, Target] = Registry("target")
"""Filled by plugins: ``register(Target(...))``."""


def register(target: Target) -> Target:
    """Make *target* known.

    Raises:
        RegistrationError: Another one has its name, or its passes cannot be ordered.
    """
    for phase in Phase:
        target.at(phase)
    for info in target.devices:
        VIRTUAL_DEVICES.register(info.name, info)
    return TARGETS.register(target.name, target)


def targets_of(infos: Iterable[DeviceInfo]) -> list[Target]:
    """Return the targets that any of these devices belongs to."""
    found = list(infos)
    return [t for t in TARGETS.values() if any(t.matches(info) for info in found)]


def with_profiles(devices: Mapping[str, DeviceInfo]) -> dict[str, DeviceInfo]:
    """Return *devices* with the profiles that their targets give them."""
    made = dict(devices)
    for target in TARGETS.values():
        for name, info in made.items():
            if target.profile is not None and target.matches(info):
                made[name] = target.profile(info)
    return made
