"""Device memory: one allocation, and the bytes in it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.core.aligned import aligned
from clgraph.errors import DeviceMemoryError
from clgraph.runtime import driver
from clgraph.selector.query import DeviceInfo

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array


class Memory:
    """One allocation of a device, or the part of a caller's that begins at byte ``start``.

    ``handle`` is the ``pyopencl.Buffer``.

    ``array`` is the same memory as bytes on the host, where the device works on the host's memory, else ``None``: to be
    read and written while nothing is in flight that touches it.

    ``address`` is where it lies in the host's memory, ``None`` where that is not known.

    The object must outlive every kernel it is bound to: not every driver keeps the buffers of a kernel alive.
    """

    __slots__ = ("__weakref__", "_address", "array", "handle", "nbytes", "start")

    def __init__(
        self, handle: Any, nbytes: int, array: Array | None = None, start: int = 0, address: int | None = None
    ) -> None:
        """Wrap *nbytes* bytes of an allocation; *address* is that of memory without an *array*."""
        self.handle, self.nbytes, self.array, self.start, self._address = handle, nbytes, array, start, address

    @property
    def address(self) -> int | None:
        """Where the first byte is."""
        return self._address if self.array is None else self.array.__array_interface__["data"][0]

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
    flags = cl.mem_flags
    try:
        if "host_memory" not in info.features:
            return Memory(cl.Buffer(context, flags.READ_WRITE, size), size)
        array = aligned(size)
        return Memory(cl.Buffer(context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=array), size, array)
    except (cl.Error, MemoryError) as error:
        raise DeviceMemoryError(f"{info.name} has no {size} bytes left for {what}: {error}") from error


def lend(context: Any, array: Array, *, writable: bool = False) -> Memory:
    """Return a caller's C-contiguous *array* as memory, on a device that works on the host's memory.

    Raises:
        DeviceMemoryError: The driver does not take it.
    """
    bytes_of = array.reshape(-1).view(np.uint8) if writable else None
    address = array.__array_interface__["data"][0]
    return Memory(_lent(context, array, array.nbytes, writable=writable), array.nbytes, bytes_of, address=address)


def lend_at(context: Any, address: int, nbytes: int) -> Memory:
    """Return *nbytes* bytes at *address*, which may be read and written, as memory that keeps no array alive.

    PoCL does not touch the memory behind such a buffer but in commands that use it, nor where the buffer is released.

    Raises:
        DeviceMemoryError: The driver does not take it.
    """
    handle = _lent(context, (ctypes.c_char * nbytes).from_address(address), nbytes, writable=True)
    return Memory(handle, nbytes, address=address)


def _lent(context: Any, memory: Any, nbytes: int, *, writable: bool) -> Any:
    cl = driver.load()
    flags = (cl.mem_flags.READ_WRITE if writable else cl.mem_flags.READ_ONLY) | cl.mem_flags.USE_HOST_PTR
    try:
        return cl.Buffer(context, flags, hostbuf=memory)
    except (cl.Error, MemoryError) as error:
        raise DeviceMemoryError(f"the driver does not take an array of {nbytes} bytes: {error}") from error
