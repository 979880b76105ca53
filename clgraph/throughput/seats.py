"""Where streams run: the cores of a device shared out, or several devices in turn."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.engines.opening import several
from clgraph.errors import OptionError
from clgraph.runtime.device import find_device

_OTHERS = {"gpu": 2}
"""Streams of devices that are not divided: on a GPU one copies while the other computes."""


@frozen
class Seat:
    """A device, and the threads of it that a stream has; ``None`` where it has no threads."""

    device: str
    threads: int | None

    def __str__(self) -> str:
        return self.device if self.threads is None else f"{self.device} with {self.threads} thread(s)"


def default_streams(device: str, threads: int | None) -> int:
    """Return the number of streams where nobody has said or measured anything: one a core, two a GPU."""
    return sum(_threads(name, threads) or _OTHERS.get(find_device(name).info.kind, 1) for name in several(device))


def seats(device: str, threads: int | None, streams: int) -> list[Seat]:
    """Return where each of *streams* runs: dealt to the devices in turn, each device's *threads* shared out equally.

    A stream of one thread is on the whole device, where it runs in the thread that calls; one of several has a part of
    the device's cores.

    Raises:
        OptionError: There are more streams than threads, or none.
        DeviceError: There is no such device.
    """
    if not isinstance(streams, int) or streams < 1:
        raise OptionError(f"streams={streams!r} is not a number of streams")
    devices, found = several(device), []
    for number in range(streams):
        name = devices[number % len(devices)]
        have, sharing = _threads(name, threads), len(range(number % len(devices), streams, len(devices)))
        if have is not None and sharing > have:
            raise OptionError(f"streams={streams}: {sharing} of them would share the {have} thread(s) of {name}")
        each = None if have is None else have // sharing
        divided = each is not None and each > 1 and sharing > 1
        found.append(Seat(f"{name}/{number // len(devices) + 1}of{sharing}" if divided else name, each))
    return found


def _threads(name: str, threads: int | None) -> int | None:
    """Return the threads that are to be shared out of *name*; ``None`` for what has none."""
    info = find_device(name).info
    return (threads or info.workers) if info.kind == "cpu" else None
