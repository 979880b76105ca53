"""Engines without OpenCL: the host, which runs references, and a device that runs nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from clgraph.runtime.device import HOST
from clgraph.selector.query import DeviceInfo


@dataclass(frozen=True)
class HostEngine:
    """The host as a placement: nodes on it run their NumPy reference."""

    info: DeviceInfo = HOST.info


@dataclass(frozen=True)
class NullEngine:
    """A device that only selection knows: for dry runs and for tests without OpenCL."""

    info: DeviceInfo = field(default_factory=DeviceInfo)
