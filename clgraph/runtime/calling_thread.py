"""PoCL's ``basic`` device, which runs kernels in the launching thread, so that no other thread has to be woken.

PoCL's usual device has a thread a core. To wake one takes 50-80 us where its core idles, more than a small model
computes. PoCL 3.0 has a second driver for the same CPU, ``basic``, which it offers when asked to by ``POCL_DEVICES``.
Other code of the process sees its device, too, behind the usual one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clgraph.core.log import Log
from clgraph.errors import DeviceError
from clgraph.handlers import pass_on
from clgraph.runtime import pocl
from clgraph.runtime.wheel import impose, is_wheel, wheel_decision

_log = Log(__name__)

VARIABLE = "POCL_DEVICES"
_BOTH = "basic pthread"
_ALONE = "basic-"
"""How the device's name begins."""

_APART: dict[int, Any] = {}
"""The device of each platform, by the address of the platform."""
_USED: dict[int, Any] = {}
"""The same, once it compiles what the usual device does."""


@contextmanager
def offered(library: Path) -> Iterator[None]:
    """Let the wheel's PoCL, at *library*, list both devices; which ones it has is decided when it is first asked.

    A choice of the user's stands.
    """
    if VARIABLE in os.environ or not _comes_second(library):
        yield
        return
    os.environ[VARIABLE] = _BOTH
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def _comes_second(library: Path) -> bool:
    """Whether this device is listed behind the usual one, which other code of the process takes by its place."""
    try:
        functions = ctypes.CDLL(os.fspath(library))
        pthread, basic = (
            ctypes.cast(functions[f"pocl_{name}_init_device_ops"], ctypes.c_void_p).value or 0
            for name in ("pthread", "basic")
        )
        pocl.list_pthread_first(pocl.ProcessMemory(), pthread, basic)
    except (DeviceError, OSError, AttributeError) as error:
        pass_on(error)
        _log.info("PoCL's device for the calling thread is not asked for: %s", error)
        return False
    return True


def set_apart(platform: Any, handles: list[Any]) -> list[Any]:
    """Return the devices of *platform* but this one, if it has others: what is run there is decided by threads."""
    if not is_wheel(platform):
        return handles
    others = [handle for handle in handles if not handle.name.startswith(_ALONE)]
    if not others or len(others) == len(handles):
        return handles
    _APART[platform.int_ptr] = next(handle for handle in handles if handle not in others)
    return others


def stands_beside(handle: Any, usual: Any) -> bool:
    """Whether *handle* is this device of the platform whose usual device is *usual*."""
    return bool(handle == _APART.get(usual.platform.int_ptr))


def beside(handle: Any) -> Any | None:
    """Return the device beside *handle* that runs kernels in the calling thread, ``None`` where there is none.

    It compiles for the same instruction set, and takes the code that PoCL has compiled for *handle*.
    """
    address = handle.platform.int_ptr
    if address in _APART and address not in _USED:
        alone = _APART[address]
        try:
            impose(alone, wheel_decision().record)
            pocl.share_code(pocl.ProcessMemory(), handle.int_ptr, alone.int_ptr)
        except DeviceError as error:
            _log.info("%s is not used: %s", alone.name, error)
            del _APART[address]
        else:
            _USED[address] = alone
    return _USED.get(address)


def calls(handle: Any) -> bool:
    """Whether *handle* is such a device, which :func:`beside` has returned."""
    return handle in _USED.values()
