"""Options of the server, with limits that are on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from clgraph.core.frozen import frozen


@frozen(kw_only=True)
class ServerOptions:
    """What is served, where, and within which limits.

    Attributes:
        host: Address that is listened at; there is no authentication, so that others than this machine's own have to
            be asked for.
        http_port, grpc_port: 0 for any that is free; ``None`` for none.
        compile: Arguments of :func:`clgraph.compile` for every model, where its own options say nothing else.
        max_request: Bytes of a request, unpacked.
        timeout: Seconds that a call may wait and run, and that a client may take to send one.
        queue: Calls that may wait for each model.
        connections: HTTP connections, and calls of gRPC, at a time.
        poll: Seconds between looks at the folder; 0 looks when a client asks alone.
        grace: Seconds that what runs has when the server ends.
        follow_links: Let links lead out of the folder of models.
        memory_limit: Bytes of each device that the models take together, or as ``"2 GiB"``; 0 for any number. Those
            used longest ago are evicted where others need room, and loaded again when they are called.
    """

    folder: Path
    host: str = "127.0.0.1"
    http_port: int | None = 8000
    grpc_port: int | None = 8001
    compile: Mapping[str, Any] = field(default_factory=dict)
    max_request: int = 64 << 20
    timeout: float = 60.0
    queue: int = 64
    connections: int = 1000
    poll: float = 5.0
    grace: float = 30.0
    follow_links: bool = False
    memory_limit: int | str = 0
