"""Kernels of a program: their arguments, and their launches, by OpenCL's own functions.

pyopencl's kernels import its Python half, which writes and compiles code for each number of arguments.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from clgraph.runtime.opencl import OpenCL

_INT, _UINT, _POINTER, _SIZE = ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t
_NUM_ARGS = 0x1191
INVALID_KERNEL_NAME = -46
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...] | None]] = {
    "clCreateKernel": (_POINTER, (_POINTER, ctypes.c_char_p, _POINTER)),
    "clReleaseKernel": (_INT, (_POINTER,)),
    "clGetKernelInfo": (_INT, (_POINTER, _UINT, _SIZE, _POINTER, _POINTER)),
    "clSetKernelArg": (_INT, (_POINTER, _UINT, _SIZE, _POINTER)),
    "clEnqueueNDRangeKernel": (_INT, None),
}
"""Result and arguments of each function; ``None`` where it is given objects of ctypes, which none need be made of."""


class Kernel:
    """A kernel with its arguments bound; several may be made of one entry of a program.

    Attributes:
        entry: The function in the program.
        int_ptr: OpenCL's handle.
    """

    def __init__(self, cl: OpenCL, program: Any, entry: str, args: Sequence[Any]) -> None:
        """Make the kernel *entry* of a ``pyopencl._cl._Program``.

        Args:
            args: Buffers, which the caller keeps alive, and NumPy's scalars.

        Raises:
            cl.Error: There is no such kernel, or an argument is none for it.
            TypeError: It takes another number of arguments.
        """
        self._cl, self.entry, self.int_ptr = cl, entry, None
        self._calls = _functions(cl)
        code = _INT(0)
        self.int_ptr = self._calls["clCreateKernel"](program.int_ptr, entry.encode(), ctypes.byref(code))
        self._check("clCreateKernel", code.value)
        count = _UINT(0)
        asked = self._calls["clGetKernelInfo"](self.int_ptr, _NUM_ARGS, 4, ctypes.byref(count), None)
        self._check("clGetKernelInfo", asked)
        if count.value != len(args):
            raise TypeError(f"it takes {count.value}")
        for number, arg in enumerate(args):
            self.set_arg(number, arg)

    def set_arg(self, number: int, arg: Any) -> None:
        """Bind an argument: a buffer, or a scalar of NumPy's; raises ``cl.Error``."""
        if isinstance(arg, self._cl.MemoryObjectHolder):
            held = ctypes.c_void_p(arg.int_ptr)
            size, address = ctypes.sizeof(held), ctypes.addressof(held)
        else:
            value = arg.tobytes()
            size, address = len(value), value
        self._check("clSetKernelArg", self._calls["clSetKernelArg"](self.int_ptr, number, size, address))

    def launch(self, queue: Any, grid: tuple[int, ...], group: tuple[int, ...] | None) -> Callable[[], None]:
        """Return what enqueues the kernel on a ``pyopencl.CommandQueue``; it raises ``cl.Error``."""
        enqueue = self._calls["clEnqueueNDRangeKernel"]
        arguments = (*self._arguments(queue, grid, group), _UINT(0), None, None)

        def launch(_held: Any = queue) -> None:
            if code := enqueue(*arguments):
                self._check("clEnqueueNDRangeKernel", code)

        return launch

    def launch_after(
        self, queue: Any, grid: tuple[int, ...], group: tuple[int, ...] | None
    ) -> Callable[[Sequence[Any]], Any]:
        """Return what enqueues the kernel behind events; it returns the launch's own event, and raises ``cl.Error``."""
        enqueue, made = self._calls["clEnqueueNDRangeKernel"], self._cl.Event.from_int_ptr
        arguments = self._arguments(queue, grid, group)

        def launch(before: Sequence[Any], _held: Any = queue) -> Any:
            waits = (_POINTER * len(before))(*(event.int_ptr for event in before)) if before else None
            event = _POINTER()
            if code := enqueue(*arguments, _UINT(len(before)), waits, ctypes.byref(event)):
                self._check("clEnqueueNDRangeKernel", code)
            return made(event.value, False)

        return launch

    def _arguments(self, queue: Any, grid: tuple[int, ...], group: tuple[int, ...] | None) -> tuple[Any, ...]:
        """Return the arguments of a launch on *queue*, which the caller keeps alive, before its events."""
        sizes = _SIZE * len(grid)
        local = None if group is None else sizes(*group)
        return _POINTER(queue.int_ptr), _POINTER(self.int_ptr), _UINT(len(grid)), None, sizes(*grid), local

    def _check(self, function: str, code: int) -> None:
        if code:
            raise self._cl.LogicError(self._cl._ErrorRecord(function, code, self.entry))

    def __del__(self) -> None:
        """Give the kernel back to the driver."""
        if self.int_ptr is not None:
            self._calls["clReleaseKernel"](self.int_ptr)


def _functions(cl: OpenCL) -> dict[str, Any]:
    """Return the functions of OpenCL that are used here."""
    if not _FOUND:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(cl.library, name)
            function.restype = result
            if arguments is not None:
                function.argtypes = arguments
            _FOUND[name] = function
    return _FOUND


_FOUND: dict[str, Any] = {}
