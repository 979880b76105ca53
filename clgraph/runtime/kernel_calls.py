"""Kernels of PoCL's ``basic`` device, called as the functions that PoCL has made of them.

To run a kernel in the calling thread takes PoCL 4 us, in which it makes a command and an event, copies the arguments
and takes locks. What it calls at last is a function of a library that it has loaded: one work-group of the kernel. The
kernel of an operator on a small tensor is over in less than that (docs/decisions/019-kernels-that-are-called.md).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clgraph.core.log import Log
from clgraph.handlers import suppressed
from clgraph.runtime.memory import Memory

_log = Log(__name__)

_CONTEXT = struct.Struct("<3Q3Q3QQQII")
"""PoCL's ``pocl_context``: groups, global offset and work-items of a group, each of 3 axes; what printf writes to (an
address, the address of its length, its capacity), number of axes."""
_ENVIRONMENT = 32
"""Bytes that ``fegetenv`` writes on x86-64; the last four are the control and status word of vector instructions."""
_STATUS, _USUAL = 0x3F, 0x1F80
"""The bits of that word that say what has happened, and the others as PoCL sets them for a kernel: round to nearest,
keep denormal numbers, raise no exceptions."""


Code = Path | Callable[[str], Path | None]
"""The file that a kernel's code is loaded from, or what finds it by the kernel's name once it is."""


class KernelCall:
    """A kernel with its arguments, for launches of one work-group of one work-item."""

    def __init__(self, code: Code, entry: str, args: Sequence[Memory | np.generic]) -> None:
        """Take where PoCL loads the kernel's code from, its name and its arguments."""
        self._code, self._entry = code, entry
        # Not ctypes' arrays: each length is a class of its own, which only the collector removes.
        self._held = np.zeros(len(args), np.uint64)
        self._pointers = _address(self._held) + np.arange(len(args), dtype=np.uint64) * np.uint64(8)
        self._context = np.frombuffer(_CONTEXT.pack(1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1), np.uint8).copy()
        self._unknown = set[int]()
        for number, arg in enumerate(args):
            if isinstance(arg, Memory):
                self.set(number, arg)
            else:
                data = np.frombuffer(arg.tobytes(), np.uint8)
                self._held.view(np.uint8)[8 * number : 8 * number + len(data)] = data

    def set(self, number: int, memory: Memory) -> None:
        """Bind an argument to *memory*, which the caller keeps alive."""
        address = memory.address
        (self._unknown.add if address is None else self._unknown.discard)(number)
        self._held[number] = address or 0

    @property
    def is_possible(self) -> bool:
        """Whether the address of each buffer is known."""
        return not self._unknown

    def step(self, enqueue: Callable[[], Any], finish: Callable[[], None]) -> Callable[[], None]:
        """Return the step that calls the kernel behind all that its queue was given before.

        The first time it is enqueued, by which PoCL loads it. It is, too, where the thread computes otherwise than PoCL
        lets kernels compute, as with ``torch.set_flush_denormal``; and ever after where PoCL has not loaded it from the
        known place.

        Args:
            enqueue: Gives it to its queue.
            finish: Waits until all that the queue was given is over.
        """
        function: Any = None
        asked = False
        here = [ctypes.c_void_p(int(_address(array))) for array in (self._pointers, self._context)]
        arguments = (*here, *[ctypes.c_size_t(0)] * 3)
        environment = np.zeros(_ENVIRONMENT // 4, np.uint32)
        ask, where = ctypes.PyDLL(None).fegetenv, ctypes.c_void_p(int(_address(environment)))
        ask.restype = None

        def call(_held: Any = self) -> None:
            nonlocal function, asked
            finish()
            if function is not None and not self._unknown:
                ask(where)
                if environment.item(_ENVIRONMENT // 4 - 1) & ~_STATUS == _USUAL:
                    function(*arguments)
                    return
            enqueue()
            if not asked:
                finish()
                asked, function = True, self._loaded()

        return call

    def _loaded(self) -> Any | None:
        """Return the function of the kernel that PoCL has loaded, ``None`` if it has not."""
        code = self._code if isinstance(self._code, Path) else self._code(self._entry)
        with suppressed(OSError, AttributeError):
            if code is None:
                return None
            library = ctypes.CDLL(os.fspath(code), mode=os.RTLD_NOW | os.RTLD_NOLOAD)
            function = library[f"_pocl_kernel_{self._entry}_workgroup"]
            function.restype = None
            return function
        _log.info("PoCL has not loaded %s from %s: it is enqueued", self._entry, code)
        return None


def _address(array: np.ndarray[Any, Any]) -> np.uint64:
    return np.uint64(array.__array_interface__["data"][0])
