"""PoCL's optimiser and code generator, turned down for tests: a kernel's first launch takes 20 ms in place of 80-160.

PoCL 3.0 of the wheel runs LLVM's passes over a kernel at its first launch, all of them whatever the build options say,
and has code generated with all care. No option and no variable changes that; two instructions do, once the maps are
empty in which it keeps the passes and the generator of each device. Another PoCL is left as it is.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Any

from clgraph.runtime.identity import library_of
from clgraph.runtime.pocl import AddressSpace, ProcessMemory
from clgraph.runtime.wheel import is_wheel

_ORIGIN = "pocl_basic_init_device_ops"
"""The exported function from which places in the binary are counted."""
_BASE = 0x791E30
INSTRUCTIONS = {
    # Level of the passes: the constant (3, 0), or zeros.
    0x7E4C82 - _BASE: (bytes.fromhex("488b0527bab503"), bytes.fromhex("b8000000009090")),
    # Level of the code generator, pushed as an argument: aggressive, or none.
    0x7E3974 - _BASE: (bytes.fromhex("6a03"), bytes.fromhex("6a00")),
}
"""Instructions as PoCL has them and turned down, by their place in ``kernel_compiler_passes``, ``GetTargetMachine``."""
MAPS = (0x54A8B60 - _BASE, 0x54A8BA0 - _BASE)
"""Places of ``kernelPasses`` and ``targetMachines``, of type ``std::map<cl_device_id, ...>``."""
HEADER_BYTES = 40
"""What a map is behind its comparison; its nodes are elsewhere, and know their header by its address."""

Headers = dict[bool, list[bytes]]
"""The headers of the maps, turned down or not, from when PoCL was left so."""

_origin: int | None = None
_kept: Headers = {}
_wanted, _is_down = True, False


def let(down: bool) -> None:
    """Have kernels compiled quickly from now on, or like users'; a process that has no PoCL yet, as soon as it has."""
    global _wanted
    _wanted = down
    _apply()


def know(platform: Any) -> None:
    """Do for the PoCL of *platform* what is wanted, before it compiles anything; nothing for other drivers."""
    global _origin
    if _origin is None and is_wheel(platform):
        function = ctypes.CDLL(os.fspath(library_of(platform) or Path()))[_ORIGIN]
        _origin = ctypes.cast(function, ctypes.c_void_p).value
    _apply()


def _apply() -> None:
    global _is_down
    if _origin is not None and _is_down != _wanted:
        switch(ProcessMemory(), _origin, _kept, down=_wanted)
        _is_down = _wanted


def found(memory: AddressSpace) -> list[bytes]:
    """Return the instructions as the PoCL that is known has them; none before one is."""
    if _origin is None:
        return []
    return [memory.read(_origin + place, len(usual)) for place, (usual, _) in INSTRUCTIONS.items()]


def switch(memory: AddressSpace, origin: int, kept: Headers, *, down: bool) -> None:
    """Turn the passes and the generator of the PoCL around *origin* down, or up again, for all devices.

    No kernel may be compiled meanwhile, and a context has to live from the first call to the last: PoCL deletes the
    passes and generators behind the last context, and would not find those in *kept*. The tests' engines are cached.
    """
    codes = {origin + place: codes if down else codes[::-1] for place, codes in INSTRUCTIONS.items()}
    there = {address: memory.read(address, len(before)) for address, (before, _) in codes.items()}
    assert all(there[address] == before for address, (before, _) in codes.items()), (
        f"PoCL has {[code.hex() for code in there.values()]} where its levels of optimising should be"
    )
    for address, (_, after) in codes.items():
        memory.write(address, after)
    headers = [origin + place + 8 for place in MAPS]
    kept[not down] = [memory.read(header, HEADER_BYTES) for header in headers]
    # libstdc++'s empty map: no colour, no root, the ends are the header itself, no entries.
    empty = [struct.pack("<5Q", 0, 0, header, header, 0) for header in headers]
    for header, content in zip(headers, kept.get(down, empty), strict=True):
        memory.write(header, content)
