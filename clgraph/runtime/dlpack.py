"""DLPack capsules of OpenCL memory (device type 4), which NumPy neither makes nor reads.

A capsule's data is the ``cl_mem``, its elements begin ``byte_offset`` bytes behind the beginning. The context is the
buffer's. Layout of the structures: https://dmlc.github.io/dlpack/latest/c_api.html, those without a version, which
every consumer takes.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import InputError

OPENCL = 4
"""Device type of DLPack: kDLOpenCL."""
_NAME, _USED = b"dltensor", b"used_dltensor"
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_BFLOAT16 = 4
_KINDS = {code: kind for kind, code in _CODES.items()}


class _Managed(ctypes.Structure):
    """``DLManagedTensor``, the ``DLTensor`` in it spelled out."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [
    ("data", ctypes.c_void_p),
    ("device_type", ctypes.c_int32),
    ("device_id", ctypes.c_int32),
    ("ndim", ctypes.c_int32),
    ("code", ctypes.c_uint8),
    ("bits", ctypes.c_uint8),
    ("lanes", ctypes.c_uint16),
    ("shape", ctypes.POINTER(ctypes.c_int64)),
    ("strides", ctypes.POINTER(ctypes.c_int64)),
    ("byte_offset", ctypes.c_uint64),
    ("manager", ctypes.c_void_p),
    ("deleter", _Deleter),
]

_api = ctypes.PyDLL(None)
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_api.PyCapsule_IsValid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_api.PyCapsule_SetName.argtypes = (ctypes.c_void_p, ctypes.c_char_p)

_HANDED_OUT: dict[int, list[Any]] = {}
"""Our capsules and what their consumers read, by the address of the structure, until they give it back."""


@frozen
class Foreign:
    """The description of memory in a capsule: the address of a ``cl_mem``, element type and shape.

    Attributes:
        start: Bytes in front of the first element.
        release: Gives the memory back to who made the capsule.
    """

    address: int
    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    release: Callable[[], None]


def capsule(buffer: Any, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return a capsule of dense elements in *buffer*, a ``pyopencl.Buffer`` that lives until it is given back."""
    forget_unused()
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    narrow = dtype.kind == "V"
    made = _Managed(
        data=buffer.int_ptr,
        device_type=OPENCL,
        ndim=len(shape),
        code=_BFLOAT16 if narrow else _CODES[dtype.kind],
        bits=dtype.itemsize * 8,
        lanes=1,
        shape=sizes,
        byte_offset=start,
        deleter=_give_back,
    )
    address = ctypes.addressof(made)
    _HANDED_OUT[address] = [_api.PyCapsule_New(address, _NAME, None), made, sizes, buffer]
    return _HANDED_OUT[address][0]


def forget_unused() -> None:
    """Let go of what capsules hold that were dropped before anybody took them.

    A capsule's destructor would know, but one in Python clears the exception that a consumer is about to raise.
    """
    for address, (found, *_) in list(_HANDED_OUT.items()):
        # Known here: the list, this loop, and the call.
        if sys.getrefcount(found) <= 3 and _api.PyCapsule_IsValid(id(found), _NAME):
            del _HANDED_OUT[address]


def taken(capsule: Any) -> Foreign:
    """Consume *capsule* and return its description; its memory is owned from now on.

    Raises:
        InputError: It is not one of OpenCL memory, is used already, or its elements do not lie densely.
    """
    held = id(capsule)  # CPython's address of the object, which the caller keeps
    if not _api.PyCapsule_IsValid(held, _NAME):
        raise InputError(f"{capsule!r} is not an unused capsule of DLPack without a version")
    managed = ctypes.POINTER(_Managed)
    pointer = ctypes.cast(_api.PyCapsule_GetPointer(held, _NAME), managed)
    found = pointer.contents
    if found.device_type != OPENCL:
        raise InputError(f"the capsule is of DLPack's device type {found.device_type}, not of OpenCL memory ({OPENCL})")
    shape = tuple(found.shape[: found.ndim])
    dense = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    if found.strides and any(n > 1 and found.strides[i] != dense[i] for i, n in enumerate(shape)):
        raise InputError(f"the elements of the capsule lie at strides {found.strides[: found.ndim]}, not densely")
    if found.lanes != 1 or found.code not in _KINDS:
        raise InputError(f"elements of DLPack's type {found.code} with {found.lanes} lanes are none of clgraph's")
    _api.PyCapsule_SetName(held, _USED)
    return Foreign(
        found.data or 0,
        found.byte_offset,
        shape,
        np.dtype("?" if found.code == _CODES["b"] else f"{_KINDS[found.code]}{found.bits // 8}"),
        lambda: found.deleter(pointer) if found.deleter else None,
    )


def _forget(pointer: Any) -> None:
    _HANDED_OUT.pop(ctypes.addressof(pointer.contents), None)


_give_back = _Deleter(_forget)
