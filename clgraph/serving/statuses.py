"""How an error is told to a client: its status in HTTP and in gRPC, and one line of text."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.errors import (
    ClgraphError,
    ClosedError,
    InputError,
    NotReadyError,
    QueueFullError,
    RunCancelledError,
    RunTimeoutError,
    ShapeError,
    TooLargeError,
    UnknownModelError,
    UnsupportedError,
)


@frozen
class Status:
    """A status: the number in HTTP, the name in gRPC."""

    http: int
    grpc: str


_STATUSES: tuple[tuple[type[Exception], Status], ...] = (
    (TooLargeError, Status(413, "RESOURCE_EXHAUSTED")),
    (InputError, Status(400, "INVALID_ARGUMENT")),
    (ShapeError, Status(400, "INVALID_ARGUMENT")),
    (UnknownModelError, Status(404, "NOT_FOUND")),
    (NotReadyError, Status(503, "UNAVAILABLE")),
    (ClosedError, Status(503, "UNAVAILABLE")),
    (QueueFullError, Status(503, "RESOURCE_EXHAUSTED")),
    (MemoryError, Status(503, "RESOURCE_EXHAUSTED")),
    (RunTimeoutError, Status(504, "DEADLINE_EXCEEDED")),
    (RunCancelledError, Status(499, "CANCELLED")),
    (UnsupportedError, Status(501, "UNIMPLEMENTED")),
)
"""The first class that an error is of counts."""

FAULT = Status(500, "INTERNAL")
"""Of every other error."""


def status_of(error: BaseException) -> Status:
    """Return the status that *error* is told by."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), FAULT)


def text_of(error: BaseException) -> str:
    """Return *error* in one line; what nobody meant to raise is named by its class alone, the log has the rest."""
    if isinstance(error, ClgraphError):
        return " ".join(str(error).split())
    return f"the server failed: {type(error).__name__}; its log says more"
