"""Command buffers: launches recorded once and handed to the device together (cl_khr_command_buffer).

pyopencl does not bind the extension, so that its functions are called as the driver hands them out.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

from clgraph.errors import DeviceError
from clgraph.runtime import driver
from clgraph.runtime.kernels import Kernel

EXTENSION = "cl_khr_command_buffer"
Launched = tuple[Kernel, tuple[int, ...], tuple[int, ...] | None]
"""A kernel with its arguments set, its grid and its group."""

_REQUIRED_QUEUE_PROPERTIES = 0x12AA
_POINTER, _COUNT = ctypes.c_void_p, ctypes.c_uint
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "clCreateCommandBufferKHR": (_POINTER, (_COUNT, _POINTER, _POINTER, _POINTER)),
    "clCommandNDRangeKernelKHR": (ctypes.c_int, (*(_POINTER,) * 4, _COUNT, *(_POINTER,) * 3, _COUNT, *(_POINTER,) * 3)),
    "clFinalizeCommandBufferKHR": (ctypes.c_int, (_POINTER,)),
    "clEnqueueCommandBufferKHR": (ctypes.c_int, (_COUNT, _POINTER, _POINTER, _COUNT, _POINTER, _POINTER)),
    "clReleaseCommandBufferKHR": (ctypes.c_int, (_POINTER,)),
}


def refusal(handle: Any, *, out_of_order: bool = False) -> str | None:
    """Say why a queue of the ``pyopencl.Device`` cannot run recorded launches, or return ``None``."""
    if EXTENSION not in handle.extensions.split():
        return f"{handle.name} has no {EXTENSION}"
    if missing := [name for name in _SIGNATURES if name not in _functions(handle.platform)]:
        return f"the driver of {handle.name} has no {missing[0]}"
    if out_of_order:
        return "its queue runs out of order"
    if _ask(handle, _REQUIRED_QUEUE_PROPERTIES):
        return f"{handle.name} records only for queues with other properties"
    return None


class CommandBuffer:
    """Launches on one in-order queue, recorded for good; calling it enqueues them all. It may not overlap itself."""

    def __init__(self, handle: Any, queue: Any, launches: Sequence[Launched]) -> None:
        """Record *launches*; their arguments are those of this moment.

        Raises:
            DeviceError: The driver refuses one of them.
        """
        self._calls = _functions(handle.platform)
        self._held = (queue, [kernel for kernel, _, _ in launches])
        self._queues = (_POINTER * 1)(queue.int_ptr)
        error = ctypes.c_int(0)
        self._buffer = self._calls["clCreateCommandBufferKHR"](1, self._queues, None, ctypes.byref(error))
        _check("clCreateCommandBufferKHR", error.value)
        for kernel, grid, group in launches:
            self._record(kernel, grid, group)
        _check("clFinalizeCommandBufferKHR", self._calls["clFinalizeCommandBufferKHR"](self._buffer))

    def _record(self, kernel: Kernel, grid: tuple[int, ...], group: tuple[int, ...] | None) -> None:
        sizes = ctypes.c_size_t * len(grid)
        local = None if group is None else sizes(*group)
        code = self._calls["clCommandNDRangeKernelKHR"](
            *(self._buffer, None, None, kernel.int_ptr, len(grid), None, sizes(*grid), local, 0, None, None, None)
        )
        _check(f"recording {kernel.entry}", code)

    def __call__(self) -> None:
        """Enqueue the launches; raises ``DeviceError``."""
        code = self._calls["clEnqueueCommandBufferKHR"](0, None, self._buffer, 0, None, None)
        _check("clEnqueueCommandBufferKHR", code)

    def __del__(self) -> None:
        """Give the recording back to the driver."""
        if getattr(self, "_buffer", None):
            self._calls["clReleaseCommandBufferKHR"](self._buffer)


def _check(what: str, code: int) -> None:
    if code:
        raise DeviceError(f"{what} failed with OpenCL's error {code}; run without command_buffers")


@functools.cache
def _functions(platform: Any) -> dict[str, Any]:
    """Return the functions of the extension that the driver has."""
    find = driver.load().library.clGetExtensionFunctionAddressForPlatform
    find.restype, find.argtypes = _POINTER, (_POINTER, ctypes.c_char_p)
    found = {}
    for name, (result, arguments) in _SIGNATURES.items():
        if address := find(platform.int_ptr, name.encode()):
            found[name] = ctypes.CFUNCTYPE(result, *arguments)(address)
    return found


def _ask(handle: Any, what: int) -> int:
    answer = ctypes.c_uint64(0)
    ask = driver.load().library.clGetDeviceInfo
    ask.argtypes = (_POINTER, _COUNT, ctypes.c_size_t, _POINTER, _POINTER)
    return 0 if ask(handle.int_ptr, what, ctypes.sizeof(answer), ctypes.byref(answer), None) else answer.value
