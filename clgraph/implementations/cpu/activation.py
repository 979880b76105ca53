"""Unary functions on CPU devices."""

from __future__ import annotations

from dataclasses import replace

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.elements import (
    BYTES,
    ELEMENTS,
    FLOAT,
    FUNCTIONS,
    POST,
    SIGNED,
    Computation,
    Elements,
    bits_of,
    domain_of,
    signed,
)
from clgraph.implementations.cpu.elementwise import Blocked, InRows
from clgraph.ops.activation import Activation
from clgraph.selector.implementation import implements
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query


@implements(Activation, name="activation.fsv16", serves=TILE)
class ActivationFsv16(Blocked):
    """A unary function of a blocked tensor."""


@implements(Activation, name="activation.rows", serves=replace(TILE, halos=False))
class ActivationRows(InRows):
    """A unary function of a plain tensor."""


@implements(Activation, name="activation.elements", serves=ELEMENTS)
class ActivationElements(Elements):
    """A unary function of a plain tensor: any of halves, signs of other numbers, the opposite of truth values."""

    @classmethod
    def computation(cls, q: Query[Activation]) -> Computation | str:
        dtype, name, operation = q.inputs[0].dtype, q.primitive.function, q.primitive.as_post(0)
        if dtype == DType.BOOL and name == "not":
            return Computation(FUNCTIONS[name], BYTES, (0,), dtype, dtype)
        if dtype == DType.F16 and operation is not None:
            code = POST + post_codes()[operation.name]
            return Computation(code, FLOAT, (0,), dtype, dtype, operation.a, operation.b, slow=4.0)
        if dtype in (DType.F32, DType.BOOL) or name not in ("neg", "abs") or (dtype == DType.U64 and name == "abs"):
            return f"computes no {name} of {dtype}"
        if dtype in (DType.I8, DType.U8):
            code = FUNCTIONS["same"] if (dtype, name) == (DType.U8, "abs") else SIGNED[name]
            return Computation(code, BYTES, (0,), bits_of(dtype), bits_of(dtype))
        return Computation(FUNCTIONS[name], domain_of(dtype), (0,), signed(dtype), signed(dtype))
