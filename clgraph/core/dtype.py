"""Element types, each with its OpenCL C spelling and its NumPy twin."""

from __future__ import annotations

from enum import Enum
from functools import cache, cached_property
from typing import Any

import numpy as np

from clgraph.errors import UnsupportedError

_BYTES = {"double": 8, "float": 4, "half": 2, "long": 8, "int": 4, "short": 2, "char": 1}
_BYTES |= {f"u{name}": _BYTES[name] for name in ("long", "int", "short", "char")}


class DType(Enum):
    """One element type. The value is (OpenCL C type in memory, NumPy name), then the bits where they fill no byte.

    Types of less than a byte take one in memory, their bits at its low end; ONNX's files pack them. The NumPy twins of
    bfloat16 and of all types of 8 bits and less but integers of 8 are those of ``ml_dtypes``.

    Attributes:
        cl: OpenCL C spelling of the type as it lies in memory.
        bits: Bits of one element that carry it, as a file packs them.
        itemsize: Bytes of one element in memory.
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
    BF16 = ("ushort", "bfloat16")
    F8E4M3FN = ("uchar", "float8_e4m3fn")
    F8E4M3FNUZ = ("uchar", "float8_e4m3fnuz")
    F8E5M2 = ("uchar", "float8_e5m2")
    F8E5M2FNUZ = ("uchar", "float8_e5m2fnuz")
    F8E8M0 = ("uchar", "float8_e8m0fnu")
    F4E2M1 = ("uchar", "float4_e2m1fn", 4)
    I4 = ("uchar", "int4", 4)
    U4 = ("uchar", "uint4", 4)
    I2 = ("uchar", "int2", 2)
    U2 = ("uchar", "uint2", 2)

    def __init__(self, cl: str, name: str, bits: int | None = None) -> None:
        self.cl = cl
        self.itemsize = _BYTES[cl]
        self.bits = 8 * self.itemsize if bits is None else bits
        self._twin = name

    __hash__ = object.__hash__  # members are one of a kind, and layouts hash them all the time

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same bytes."""
        if self._twin not in NARROW:
            return np.dtype(self._twin)
        import ml_dtypes  # slow to import, and seldom wanted

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self._twin))
        return found

    @staticmethod
    def of(dtype: Any) -> DType:
        """Return the twin of a NumPy dtype, or of its name.

        Raises:
            UnsupportedError: clgraph does not hold it.
        """
        if isinstance(dtype, str) and dtype in NARROW:
            return NARROW[dtype]
        found = np.dtype(dtype)
        member = _TWINS.get(found) or NARROW.get(found.name)
        if member is None:
            held = ", ".join(map(str, DType))
            raise UnsupportedError(f"element type {found.name} is not one of {held}")
        return member

    @property
    def floating(self) -> bool:
        """Whether arithmetic on the type is floating-point."""
        return self in _FLOATING

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest number of an integer type."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.name[0] == "I" else (0, (1 << self.bits) - 1)

    def __str__(self) -> str:
        return self.name.lower()


STORED = frozenset(
    {
        *(DType.F8E4M3FN, DType.F8E4M3FNUZ, DType.F8E5M2, DType.F8E5M2FNUZ, DType.F8E8M0, DType.F4E2M1),
        *(DType.I4, DType.U4, DType.I2, DType.U2),
    }
)
"""Types of storage alone: they are moved, converted, quantized to and dequantized from, and nothing else."""


@cache
def spelled(dtype: np.dtype[Any]) -> str:
    """Return the text that :func:`named` makes *dtype* of; NumPy's own for those of ``ml_dtypes`` tells sizes alone."""
    return dtype.name if dtype.name in NARROW else dtype.str


def named(text: str) -> np.dtype[Any]:
    """Return the NumPy dtype that :func:`spelled` made *text* of."""
    return NARROW[text].numpy if text in NARROW else np.dtype(text)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether arithmetic on arrays of *dtype* is floating-point; ``dtype.kind`` does not tell for bfloat16."""
    return (dtype.kind == "f" and dtype.itemsize > 1) or dtype.name == "bfloat16"


def unit(dtype: np.dtype[Any]) -> float:
    """Return a unit in the last place of 1 in a floating *dtype*."""
    return 2.0**-7 if dtype.name == "bfloat16" else float(np.finfo(dtype).eps)


def largest(dtype: np.dtype[Any]) -> float:
    """Return the largest number of a floating *dtype*; NumPy's ``finfo`` does not know bfloat16."""
    return (2 - 2.0**-7) * 2.0**127 if dtype.name == "bfloat16" else float(np.finfo(dtype).max)


_FLOATING = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
NARROW = {member._twin: member for member in DType if member in STORED or member is DType.BF16}
"""Types whose NumPy twins are those of ``ml_dtypes``, by their names."""
_TWINS = {member.numpy: member for member in DType if member._twin not in NARROW}
