"""Initialisation of the devices of the wheel's PoCL: its settings, and doing it in a thread beside other work."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clgraph.core.log import Log
from clgraph.handlers import pass_on
from clgraph.runtime import calling_thread

_log = Log(__name__)

_SOURCES = "HWLOC_COMPONENTS"
"""The variable that names what hwloc, PoCL's library, asks about the machine's cores."""
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_ALL = 0xFFFFFFFF
"""CL_DEVICE_TYPE_ALL."""
_PLACE = 2
"""Of ``clGetDeviceIDs`` in the table of a driver's functions (extension ``cl_khr_icd``)."""

_GetDevices = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p
)


@contextmanager
def as_wanted(library: Path) -> Iterator[None]:
    """Set the environment under which PoCL, loaded from *library*, initialises its devices in the block."""
    with _described_by_the_kernel(), calling_thread.offered(library):
        yield


@contextmanager
def _described_by_the_kernel() -> Iterator[None]:
    """Let PoCL read of cores and caches from the kernel, where it tells of both; a user's choice stands.

    hwloc would ask each core itself, too: it moves the thread there, twice a core, and waits until that core is free,
    30 to 90 ms where other processes use all cores. It learns nothing more by that.
    """
    if _SOURCES in os.environ or not _CACHES.is_dir():
        yield
        return
    os.environ[_SOURCES] = "-x86"
    try:
        yield
    finally:
        del os.environ[_SOURCES]


def set_up(library: Path) -> None:
    """Initialise the devices of PoCL at *library*: 3 ms without Python's lock, which pyopencl would hold.

    Where it cannot, it is asked again as ever, and what is wrong is told then.
    """
    try:
        with as_wanted(library):
            platform = ctypes.c_void_p()
            ctypes.CDLL(os.fspath(library)).POclIcdGetPlatformIDsKHR(1, ctypes.byref(platform), None)
            if platform.value and (table := ctypes.c_void_p.from_address(platform.value).value):
                get_devices = (_GetDevices * (_PLACE + 1)).from_address(table)[_PLACE]
                get_devices(platform, _ALL, 0, None, ctypes.byref(ctypes.c_uint()))
    except (OSError, AttributeError) as error:
        pass_on(error)
        _log.info("PoCL is not asked for its devices beside what a start does: %s", error)
