"""Element types as tile functions of any elements number them, and the types that they compute with."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType

TYPES = {
    DType.F32: 0,
    DType.F16: 1,
    DType.F64: 2,
    DType.I64: 3,
    DType.I32: 4,
    DType.I16: 5,
    DType.I8: 6,
    DType.U32: 7,
    DType.U16: 8,
    DType.U8: 9,
    DType.BOOL: 10,
    DType.BF16: 11,
}
"""Codes of ``element_types.clh``. Of U64 there are the functions for which it is an I64."""

CONVERTED = {**TYPES, DType.U64: 12}
"""Codes of what is converted."""

FLOAT, DOUBLE, INT, LONG, BYTES, HALVES, SHORTS, PAIRS = range(8)
"""What is computed with."""

OWN = {FLOAT: DType.F32, DOUBLE: DType.F64, INT: DType.I32, LONG: DType.I64, HALVES: DType.U16, SHORTS: DType.U16}
"""The element type of each but bytes, which are of two."""

_WHOLE = frozenset(t for t in CONVERTED if not t.floating)
READ = {
    FLOAT: frozenset(CONVERTED),
    DOUBLE: _WHOLE | {DType.F32, DType.F64},
    INT: frozenset(t for t in _WHOLE if t.itemsize < 4) | {DType.I32},
    LONG: _WHOLE - {DType.U64} | {DType.F32},
}
"""The types that ``as_floats``, ``as_doubles``, ``as_ints`` and ``as_longs`` of ``element_types.clh`` read."""
WRITTEN = {
    FLOAT: frozenset(CONVERTED),
    DOUBLE: frozenset(CONVERTED) - {DType.BF16},
    INT: frozenset(t for t in _WHOLE if t.itemsize <= 4),
    LONG: _WHOLE - {DType.U64},
}
"""The types that ``floats_as``, ``doubles_as``, ``ints_as`` and ``longs_as`` write."""

RUN, RUN_BYTES = 512, 8
"""Elements of a piece, and bytes of one: of narrower ones there are as many more."""


def domain_of(dtype: DType) -> int:
    """Return what arithmetic on *dtype* is done with, exactly or as its results are rounded."""
    if dtype.floating:
        return DOUBLE if dtype == DType.F64 else FLOAT
    return LONG if dtype in (DType.I64, DType.U64, DType.U32) else INT


def number_bits(value: float, dtype: DType) -> int:
    """Return the bits of *value* as *dtype*, a number that is computed with, as a descriptor's ``Long``."""
    return int.from_bytes(np.array(value).astype(dtype.numpy).tobytes(), "little", signed=True)


def narrow_domain(dtype: DType) -> int | None:
    """Return the domain of integers that are computed with as they are stored, ``None`` for wider ones."""
    return {1: BYTES, 2: SHORTS}.get(dtype.itemsize) if not dtype.floating else None


def bits_of(dtype: DType) -> DType:
    """Return a type of the same size by which elements are only moved."""
    return {1: DType.U8, 2: DType.U16, 4: DType.I32, 8: DType.I64}[dtype.itemsize]


def signed(dtype: DType) -> DType:
    """Return I64 for U64, whose bits it shares."""
    return DType.I64 if dtype == DType.U64 else dtype
