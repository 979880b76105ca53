"""The host as an engine: it needs no OpenCL."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.runtime.device import HOST
from clgraph.selector.query import DeviceInfo


@frozen
class HostEngine:
    """A placement whose nodes run their NumPy reference: the host, or a target's device that no driver knows."""

    info: DeviceInfo = HOST.info
