"""Clean-up after a run that raised an exception."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from clgraph.errors import DeviceError, DeviceMemoryError, RunCancelledError


def give_up(error: BaseException, failures: tuple[type[Exception], ...], *waits: Callable[[], object]) -> None:
    """End a run that raised *error*, and wait until no command of it is in flight.

    Args:
        failures: What the driver raises.
        waits: Wait for the device, and look at what it has left.

    Raises:
        DeviceError, DeviceMemoryError: What *error* stands for, if that is not itself.
    """
    with contextlib.suppress(DeviceError, RunCancelledError):
        for wait in waits:
            wait()
    if isinstance(error, failures):
        raise DeviceError(f"the device failed while running: {error}") from error
    if isinstance(error, MemoryError) and not isinstance(error, DeviceMemoryError):
        raise DeviceMemoryError(f"the host has no memory left to run the model: {error}") from error
