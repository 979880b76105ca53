"""The host as an engine: it needs no OpenCL."""

from __future__ import annotations

from dataclasses import dataclass

from clgraph.runtime.device import HOST
from clgraph.selector.query import DeviceInfo


@dataclass(frozen=True)
class HostEngine:
    """A placement whose nodes run their NumPy reference: the host, or a target's device that no driver knows."""

    info: DeviceInfo = HOST.info
