"""The host as an engine: it needs no OpenCL."""

from __future__ import annotations

from dataclasses import dataclass

from clgraph.runtime.device import HOST
from clgraph.selector.query import DeviceInfo


@dataclass(frozen=True)
class HostEngine:
    """The host as a placement: nodes on it run their NumPy reference."""

    info: DeviceInfo = HOST.info
