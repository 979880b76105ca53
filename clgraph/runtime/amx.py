"""The tile registers of Intel AMX, which a process has to ask Linux for before its threads use them.

Linux saves 8 KB more for each thread that does (Documentation/arch/x86/xstate.rst), and ends a
process that did not ask.
"""

from __future__ import annotations

import functools
import os
import sys

FEATURES = frozenset({"amx_bf16"})
"""What needs the registers."""

_ARCH_PRCTL = 158
_REQUEST, _TILE_DATA = 0x1023, 18
"""ARCH_REQ_XCOMP_PERM, and the number of the state component XTILEDATA."""


@functools.cache
def refusal() -> str:
    """Ask for the registers, once a process and for all its threads; return why there are none, or an empty text."""
    if sys.platform != "linux":
        return f"clgraph does not ask {sys.platform} for its registers"
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0:
        return ""
    return f"the system refuses its registers ({os.strerror(ctypes.get_errno())})"
