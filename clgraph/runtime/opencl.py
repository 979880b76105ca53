"""OpenCL through the compiled half of pyopencl, ``pyopencl._cl``, and what clgraph needs of the other half.

pyopencl's Python half takes 85 ms of processor time to import, a quarter of a start out of the model cache: it makes
NumPy types of all of OpenCL's vectors, and brings pytools, sqlite3 and importlib.metadata. The compiled half takes 4.
A process may import pyopencl as well, before or after: both have the same classes, to which pyopencl then adds its own.

Names that begin with an underscore have been the same in pyopencl's compiled half from 2024.2.7 to 2026.1.4.
"""

from __future__ import annotations

import ctypes
import functools
from types import ModuleType
from typing import Any

from clgraph.core.part import import_part

_INFORMATION = {
    "Platform": "platform_info",
    "Device": "device_info",
    "CommandQueue": "command_queue_info",
    "MemoryObjectHolder": "mem_info",
}
"""Classes whose objects answer questions, and what has the numbers of these."""

_NEEDED = (
    "_Program",
    "_ErrorRecord",
    "_enqueue_write_buffer",
    "_enqueue_read_buffer",
    "_enqueue_copy_buffer",
    "_enqueue_fill_buffer",
    "_enqueue_barrier_with_wait_list",
    "_enqueue_marker_with_wait_list",
)
"""Names of the compiled half that no document promises."""


class OpenCL:
    """Classes, constants and functions of OpenCL: those of pyopencl's compiled half, and some more.

    Attributes:
        library: What the functions are found in that pyopencl does not bind, or not without its Python half.
    """

    def __init__(self, compiled: ModuleType) -> None:
        """Take pyopencl's compiled half, and let its objects be asked, ``device.name``, and its errors be read."""
        self._cl = compiled
        for name, questions in _INFORMATION.items():
            _answer(getattr(compiled, name), getattr(compiled, questions))
        if "__str__" not in vars(compiled.Error):
            compiled.Error.__str__ = lambda error: _told(compiled.status_code, error)
        # Names are looked up in the loader of OpenCL that it is linked to.
        self.library = ctypes.CDLL(compiled.__file__)

    def __getattr__(self, name: str) -> Any:
        """Return what pyopencl's compiled half has under *name*, and keep it: runs ask for the same names."""
        found = self.__dict__[name] = getattr(self._cl, name)
        return found

    def build(self, context: Any, handle: Any, code: str | bytes, options: str) -> Any:
        """Return the program of a text, or of a binary, built for one device.

        Raises:
            Error: It cannot be built; the message ends with what the compiler has said.
        """
        text = isinstance(code, str)
        program = self._cl._Program(context, code) if text else self._cl._Program(context, [handle], [code])
        try:
            program._build(options=options.encode(), devices=[handle])
        except self._cl.Error as error:
            record, log = error.args[0], f"\n{self.log_of(program, handle)}"
            raise type(error)(self._cl._ErrorRecord(record.routine(), record.code(), log)) from error
        return program

    def log_of(self, program: Any, handle: Any) -> str:
        """Return the build log of *program* on a device."""
        return program.get_build_info(handle, self._cl.program_build_info.LOG) or ""


@functools.cache
def load() -> OpenCL:
    """Load pyopencl's compiled half.

    Raises:
        ImportError: It is not installed, cannot be loaded, or is a release without names that clgraph needs.
    """
    compiled = import_part("pyopencl._cl")
    if missing := [name for name in _NEEDED if not hasattr(compiled, name)]:
        raise ImportError(f"this release of pyopencl has no {missing[0]}; 2024.2.7 to 2026.1.4 are known to have it")
    return OpenCL(compiled)


def _answer(cls: Any, questions: type) -> None:
    """Let objects of *cls* have an attribute for each of OpenCL's *questions* about them."""
    for name, number in vars(questions).items():
        if name.isupper() and not hasattr(cls, name.lower()):
            setattr(cls, name.lower(), property(functools.partial(_ask, number)))


def _ask(question: int, asked: Any) -> Any:
    return asked.get_info(question)


def _told(codes: type, error: Exception) -> str:
    """Return what pyopencl says of an error: the function, the name of OpenCL's code, and more if there is."""
    (record,) = error.args
    if isinstance(record, str):
        return record
    code = record.code()
    name = next((name for name, number in vars(codes).items() if number == code), f"error {code}")
    return f"{record.routine()} failed: {name}" + (f" - {record.what()}" if record.what() else "")
