"""Binary functions on CPU devices."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.element_functions import (
    FLOAT_POW_SLOW,
    FUNCTIONS,
    INTEGERS,
    POW,
    POW_SLOW,
    SIGNED,
    SLOW,
    UNSIGNED,
    Computation,
)
from clgraph.implementations.cpu.element_types import DOUBLE, LONG, bits_of, domain_of, narrow_domain, signed
from clgraph.implementations.cpu.elements import ELEMENTS, Elements
from clgraph.implementations.cpu.elementwise import Blocked, InRows
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Eltwise, name="eltwise.fsv16", serves=TILE)
class EltwiseFsv16(Blocked):
    """A binary function of blocked tensors."""


@implements(Eltwise, name="eltwise.rows", serves=replace(TILE, halos=False))
class EltwiseRows(InRows):
    """A binary function of plain tensors."""


_TURNED = {"greater": "less", "greater_equal": "less_equal"}
"""Comparisons as others with their inputs exchanged."""

_BITS = ("and", "or", "xor", "equal")
"""Functions of bits alone: an unsigned number is what its bits are."""

_OF_NARROW = (*_BITS, "add", "sub", "mul")
"""Functions of bytes and 16-bit integers; beside them ``_ORDERED``, which are others of signed ones."""

_ORDERED = ("min", "max", "less", "less_equal")

_WRAPPING = (*_BITS, "add", "sub", "mul")
"""Functions that are the same of signed and unsigned numbers."""


@implements(Eltwise, name="eltwise.elements", serves=ELEMENTS)
class EltwiseElements(Elements):
    """A binary function of plain tensors of one element type."""

    @classmethod
    def computation(cls, q: Query[Eltwise]) -> Computation | str:
        a, b = q.own
        name, slots = q.primitive.function, (0, 1)
        if name in _TURNED:
            name, slots = _TURNED[name], (1, 0)
        if name in INTEGERS:
            return _shift(name, a.dtype)
        if name == "pow" and a.dtype == b.dtype and a.dtype.floating:
            domain = domain_of(a.dtype)
            return Computation(
                POW, domain, slots, a.dtype, a.dtype, slow=POW_SLOW if domain == DOUBLE else FLOAT_POW_SLOW
            )
        if a.dtype != b.dtype or name not in FUNCTIONS:
            return f"computes no {name} of {a.dtype} and {b.dtype}"
        if a.dtype.floating:
            if name in (*_BITS[:3], "mod"):
                return f"computes no {name} of {a.dtype}"
            slow = SLOW["fmod"] if name == "fmod" else 0.0
            return Computation(FUNCTIONS[name], domain_of(a.dtype), slots, a.dtype, q.outputs[0].dtype, slow=slow)
        if name == "fmod" and a.dtype in (DType.U32, DType.U64):
            name = "mod"
        read, write = signed(a.dtype), signed(q.outputs[0].dtype)
        narrow = narrow_domain(a.dtype)
        if narrow is not None and name in (*_OF_NARROW, *_ORDERED):
            code = SIGNED[name] if a.dtype in (DType.I8, DType.I16) and name in _ORDERED else FUNCTIONS[name]
            return Computation(code, narrow, slots, bits_of(read), bits_of(write))
        code = UNSIGNED[name] if _by_sign(name, a.dtype) else FUNCTIONS[name]
        if a.dtype == DType.U32 and (name in _WRAPPING or name in _ORDERED):
            read, write = DType.I32, DType.I32 if write == DType.U32 else write
        domain = domain_of(read)
        return Computation(code, domain, slots, read, write, slow=SLOW.get(name, 0.0) * (1 + (domain == LONG)))


def _by_sign(name: str, dtype: DType) -> bool:
    """Return whether the function is another of unsigned numbers; quotients of U32 are those of longs."""
    return name in _ORDERED if dtype == DType.U32 else dtype == DType.U64 and name not in _WRAPPING


def _shift(name: str, dtype: DType) -> Computation:
    narrow = narrow_domain(dtype)
    if narrow is not None and dtype in (DType.U8, DType.U16):
        return Computation(INTEGERS[name], narrow, (0, 1), dtype, dtype)
    code = UNSIGNED[name] if (name, dtype) == ("shift_right", DType.U64) else INTEGERS[name]
    return Computation(code, domain_of(dtype), (0, 1), signed(dtype), signed(dtype))
