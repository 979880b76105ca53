"""Buffers of OpenCL that a caller has made, and arrays of pyopencl in them."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.errors import DeviceError, InputError
from clgraph.runtime import driver
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array


def is_buffer(given: Any) -> bool:
    """Whether *given* is a buffer of pyopencl's; none is where OpenCL was not loaded."""
    return type(given).__module__.startswith("pyopencl") and hasattr(given, "int_ptr") and hasattr(given, "get_info")


def is_array(given: Any) -> bool:
    """Whether *given* is a ``pyopencl.array.Array``, whose module is never imported for that."""
    return any(kind.__module__ == "pyopencl.array" and kind.__name__ == "Array" for kind in type(given).__mro__)


def part_of_array(array: Any) -> tuple[Any, int, Any]:
    """Return the buffer of a ``pyopencl.array.Array``, its first byte there, and its queue; what fills it is over.

    Raises:
        InputError: It is not C-contiguous, or lies in shared virtual memory.
    """
    if not array.flags.c_contiguous:
        raise InputError(
            f"the array is a pyopencl array with strides {array.strides}: give a C-contiguous one, .copy()"
        )
    if not is_buffer(array.base_data):
        raise InputError(f"the array lies in {type(array.base_data).__name__}, not in a buffer")
    wait(array.events)
    return array.base_data, array.offset, array.queue


def wait(events: Sequence[Any]) -> None:
    """Wait until what *events* stand for is over. Raises ``DeviceError`` where that has failed."""
    if not events:
        return
    cl = driver.load()
    try:
        cl.wait_for_events(list(events))
    except cl.Error as error:
        raise DeviceError(f"what the run was to wait for has failed: {error}") from error
    except (TypeError, RuntimeError) as error:
        raise InputError("a run waits for pyopencl events, and one of the given objects is not an event") from error


def buffer_at(address: int) -> Any:
    """Return the ``cl_mem`` at *address* as a buffer."""
    return driver.load().Buffer.from_int_ptr(address, True)


def memory_of(buffer: Any, start: int, nbytes: int) -> Memory:
    """Return *nbytes* bytes of *buffer* from *start* on.

    Raises:
        InputError: It has not so many, or has been released.
    """
    cl = driver.load()
    try:
        size = buffer.get_info(cl.mem_info.SIZE)
    except cl.Error as error:
        raise InputError(f"the buffer cannot be used: {error}") from error
    if start < 0 or start + nbytes > size:
        raise InputError(f"a buffer of {size} bytes does not hold {nbytes} bytes from byte {start} on")
    return Memory(buffer, nbytes, start=start)


def is_writable(memory: Memory) -> bool:
    """Whether kernels may write to it."""
    cl = driver.load()
    return not memory.handle.get_info(cl.mem_info.FLAGS) & cl.mem_flags.READ_ONLY


def mapped(engine: Engine, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
    """Return the elements of *memory* themselves, on a device that works on the host's memory.

    The buffer is mapped to learn where it lies; it is not left mapped, and lives as long as the array. What the queue
    was given before is over then. ``None`` where the host may not touch the buffer.

    PoCL 3.0 finds what it is to unmap by its address alone: of two threads that unmap one buffer, one corrupts the list
    that the other walks through. The process then hangs, or ends in pyopencl's destructor. So they do that in turn, and
    each waits until it is done.
    """
    cl = driver.load()
    flags, can = cl.mem_flags, memory.handle.get_info(cl.mem_info.FLAGS)
    if can & (flags.HOST_NO_ACCESS | flags.HOST_READ_ONLY | flags.HOST_WRITE_ONLY):
        return None
    queue, ways = engine.stream.queue, cl.map_flags.READ | cl.map_flags.WRITE
    try:
        with _MAPPING:
            array, _ = cl.enqueue_map_buffer(queue, memory.handle, ways, memory.start, (memory.nbytes,), np.uint8)
            array.base.release(queue).wait()
    except cl.Error as error:
        raise DeviceError(f"the buffer cannot be mapped: {error}") from error
    return np.asarray(_Lying(memory.handle, array.__array_interface__)).view(dtype).reshape(shape)


class _Lying:
    """What an array in a buffer keeps alive."""

    __slots__ = ("__array_interface__", "buffer")

    def __init__(self, buffer: Any, interface: dict[str, Any]) -> None:
        self.buffer, self.__array_interface__ = buffer, interface


_MAPPING = Lock()
