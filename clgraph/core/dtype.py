"""Element types, each with its OpenCL C spelling and its NumPy twin."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from clgraph.errors import UnsupportedError


class DType(Enum):
    """One element type. The value is (OpenCL C type in memory, NumPy name).

    Attributes:
        cl: OpenCL C spelling of the type as it lies in memory.
        numpy: The NumPy dtype of the same bytes.
        itemsize: Bytes of one element.
    """

    F64 = ("double", "float64")
    F32 = ("float", "float32")
    F16 = ("half", "float16")
    I64 = ("long", "int64")
    I32 = ("int", "int32")
    I16 = ("short", "int16")
    I8 = ("char", "int8")
    U64 = ("ulong", "uint64")
    U32 = ("uint", "uint32")
    U16 = ("ushort", "uint16")
    U8 = ("uchar", "uint8")
    BOOL = ("uchar", "bool")

    def __init__(self, cl: str, name: str) -> None:
        self.cl = cl
        self.numpy: np.dtype[Any] = np.dtype(name)
        self.itemsize = self.numpy.itemsize

    __hash__ = object.__hash__  # members are one of a kind, and layouts hash them all the time

    @staticmethod
    def of(dtype: Any) -> DType:
        """Return the twin of a NumPy dtype; raises ``UnsupportedError`` for one clgraph does not hold."""
        member = _TWINS.get(np.dtype(dtype))
        if member is None:
            held = ", ".join(map(str, DType))
            raise UnsupportedError(f"element type {np.dtype(dtype).name} is not one of {held}")
        return member

    @property
    def floating(self) -> bool:
        """Whether arithmetic on the type is floating-point."""
        return self in (DType.F64, DType.F32, DType.F16)

    def __str__(self) -> str:
        return self.name.lower()


_TWINS = {member.numpy: member for member in DType}
