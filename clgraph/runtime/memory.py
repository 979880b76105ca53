"""Device memory: one allocation, and the bytes in it."""

from __future__ import annotations

from typing import Any

from clgraph.errors import DeviceMemoryError
from clgraph.runtime import driver
from clgraph.selector.query import DeviceInfo


class Memory:
    """One allocation of a device. ``handle`` is the ``pyopencl.Buffer``.

    The object must outlive every kernel it is bound to: not every driver keeps the buffers of a kernel alive.
    """

    __slots__ = ("handle", "nbytes")

    def __init__(self, handle: Any, nbytes: int) -> None:
        """Wrap an allocation of *nbytes* bytes."""
        self.handle, self.nbytes = handle, nbytes

    def __repr__(self) -> str:
        return f"<memory of {self.nbytes} bytes>"


def allocate(context: Any, info: DeviceInfo, nbytes: int, what: str) -> Memory:
    """Allocate at least one byte for *what*, which messages name.

    Raises:
        DeviceMemoryError: More than the device allocates at once, or it has no memory left.
    """
    if nbytes > info.max_alloc:
        raise DeviceMemoryError(
            f"{what} takes {nbytes} bytes; {info.name} allocates at most {info.max_alloc} at once: use smaller shapes"
        )
    cl = driver.load()
    size = max(nbytes, 1)
    try:
        return Memory(cl.Buffer(context, cl.mem_flags.READ_WRITE, size), size)
    except cl.Error as error:
        raise DeviceMemoryError(f"{info.name} has no {size} bytes left for {what}: {error}") from error
