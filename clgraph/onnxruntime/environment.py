"""What ``onnxruntime`` offers beside sessions: versions, logging, telemetry, seeds."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from clgraph.core.version import __version__ as own_version
from clgraph.handlers import pass_on
from clgraph.onnxruntime.names import __version__
from clgraph.onnxruntime.notes import log, say_once
from clgraph.onnxruntime.statuses import Fail, RefusedError

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""Of Python's logging, by ONNX Runtime's severities: verbose, info, warning, error, fatal."""


def get_version_string() -> str:
    """Return the version of the interface."""
    return __version__


def get_build_info() -> str:
    """Return what answers."""
    return f"ORT Build Info: clgraph {own_version}, Python {sys.version_info.major}.{sys.version_info.minor}"


def get_device() -> str:
    """Return the kind of device that programs shall prepare for: arrays of the host."""
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Let the logger ``clgraph.onnxruntime`` show messages of a *severity* from 0 (all) to 4 (fatal) and above.

    Raises:
        RefusedError: There is no such severity.
    """
    if not 0 <= severity < len(_LEVELS):
        raise RefusedError(f"Invalid logging severity {severity}: 0 is verbose, 1 info, 2 warning, 3 error, 4 fatal")
    log.setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Return at once: there is one level of debugging."""


class _Teller(logging.Handler):
    """Tells a program's function what is logged."""

    def __init__(self, callback: Callable[[int, str, str, str, str], object]) -> None:
        super().__init__()
        self._callback = callback

    def emit(self, record: logging.LogRecord) -> None:
        """Call the function; what it raises is printed, as of any handler."""
        severity = next((s for s, level in enumerate(_LEVELS) if record.levelno <= level), len(_LEVELS) - 1)
        place = f"{record.filename}:{record.lineno} {record.funcName}"
        try:
            self._callback(severity, "clgraph", record.name, place, record.getMessage())
        except Exception as error:  # the program's own
            pass_on(error)
            self.handleError(record)


def set_default_logger_callback(callback: Any, severity: int = 2) -> None:
    """Let *callback* be told messages from a *severity* on, or none any more if it is ``None``.

    It takes the severity, a category, the logger's name, a place in the code, and the text.

    Raises:
        RefusedError: It cannot be called, or there is no such severity.
    """
    if callback is not None and not callable(callback):
        raise RefusedError(f"a callback is a function or None, not {callback!r}")
    if callback is not None:
        set_default_logger_severity(severity)
    for handler in [h for h in log.handlers if isinstance(h, _Teller)]:
        log.removeHandler(handler)
    if callback is not None:
        log.addHandler(_Teller(callback))


def enable_telemetry_events() -> None:
    """Return at once: clgraph reports nothing to anybody."""


def disable_telemetry_events() -> None:
    """Return at once: clgraph reports nothing to anybody."""


def set_seed(seed: int) -> None:
    """Log that random operators go by their attribute *seed* alone."""
    say_once(f"set_seed({seed}): random operators go by the model's attribute seed")


def preload_dlls(*_: Any, **__: Any) -> None:
    """Return at once: clgraph finds its drivers itself."""


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Log that threads are an option of the session."""
    say_once("set_global_thread_pool_sizes: threads are SessionOptions.intra_op_num_threads")


def print_debug_info() -> None:
    """Print what answers."""
    print(get_build_info())


def has_collective_ops() -> bool:
    """Return whether operators of several processes are there: never."""
    return False


def register_execution_provider_library(name: str, path: str) -> None:
    """Refuse. Raises ``Fail``, always."""
    raise Fail(f"the library {path!r} of {name!r} is made for ONNX Runtime; clgraph runs OpenCL devices")


def unregister_execution_provider_library(name: str) -> None:
    """Refuse. Raises ``Fail``, always."""
    raise Fail(f"no library is registered for {name!r}")


def create_and_register_allocator(*_: Any) -> None:
    """Log that clgraph's memory is its own."""
    say_once("create_and_register_allocator: clgraph plans its memory itself")


create_and_register_allocator_v2 = create_and_register_allocator
