"""Unary functions on CPU devices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.element_functions import (
    ANGLE_SLOW,
    ANGLES,
    DOUBLE_FUNCTIONS,
    FUNCTIONS,
    HALF,
    INTEGERS,
    POST,
    SIGNED,
    UNSIGNED,
    Computation,
)
from clgraph.implementations.cpu.element_types import (
    BYTES,
    DOUBLE,
    HALVES,
    bits_of,
    domain_of,
    narrow_domain,
    number_bits,
)
from clgraph.implementations.cpu.elements import ELEMENTS, Elements
from clgraph.implementations.cpu.elementwise import Blocked, InRows
from clgraph.ops.activation import Activation, held
from clgraph.selector.implementation import implements
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query


@implements(Activation, name="activation.fsv16", serves=TILE)
class ActivationFsv16(Blocked):
    """A unary function of a blocked tensor."""


@implements(Activation, name="activation.rows", serves=replace(TILE, halos=False))
class ActivationRows(InRows):
    """A unary function of a plain tensor."""


_SAME = ("floor", "ceil", "round")
"""What integers are left as they are by; by ``abs`` and ``relu`` unsigned ones."""


@implements(Activation, name="activation.elements", serves=ELEMENTS)
class ActivationElements(Elements):
    """A unary function of a plain tensor: of halves and doubles, of integers, the opposite of truth values."""

    @classmethod
    def computation(cls, q: Query[Activation]) -> Computation | str:
        dtype, name = q.inputs[0].dtype, q.primitive.function
        if dtype == DType.BOOL and name == "not":
            return Computation(FUNCTIONS[name], BYTES, (0,), dtype, dtype)
        if dtype in (DType.F32, DType.BOOL):
            return f"computes no {name} of {dtype}"
        return _of_integers(q) if not dtype.floating else _of_floats(q)


def _of_floats(q: Query[Activation]) -> Computation | str:
    dtype, name, operation = q.inputs[0].dtype, q.primitive.function, q.primitive.as_post(0)
    own = DType.F64 if dtype == DType.F64 else DType.F32
    if dtype == DType.F64 and name in ANGLES:
        return Computation(ANGLES[name], DOUBLE, (0,), dtype, dtype, slow=ANGLE_SLOW)
    if (by_bits := _of_half_bits(q.primitive, dtype)) is not None:
        return by_bits
    slow = DOUBLE_FUNCTIONS.get(name) if own == DType.F64 else 4.0
    if name in ("neg", "abs"):
        return Computation(FUNCTIONS[name], domain_of(dtype), (0,), dtype, dtype)
    if operation is None or slow is None:
        return f"computes no {name} of {dtype}"
    first, second = (number_bits(v, own) for v in (operation.a, operation.b))
    return Computation(POST + post_codes()[operation.name], domain_of(dtype), (0,), dtype, dtype, first, second, slow)


def _of_half_bits(primitive: Activation, dtype: DType) -> Computation | None:
    """Return what selects, bounds or turns halves by their bits, if *primitive* does only that."""
    name, bits = primitive.function, bits_of(dtype)
    if dtype.itemsize != 2 or name not in (*HALF, "relu"):
        return None
    low, high = (0.0, math.inf) if name == "relu" else (primitive.alpha, primitive.beta)
    if math.isnan(low) or math.isnan(high):
        return None
    first, second = (0, 1.0) if name == "sign" else (low, high)
    with np.errstate(over="ignore"):
        found, bound, infinity = (number_bits(v, dtype) & 0xFFFF for v in (first, second, math.inf))
    return Computation(HALF.get(name, HALF["clip"]), HALVES, (0,), bits, bits, found, bound | infinity << 16)


def _of_integers(q: Query[Activation]) -> Computation | str:
    dtype, name = q.inputs[0].dtype, q.primitive.function
    unsigned, narrow = dtype.numpy.kind == "u", narrow_domain(dtype)
    domain = domain_of(_read(dtype)) if narrow is None else narrow
    if name in _SAME or (unsigned and name in ("abs", "relu")):
        return Computation(FUNCTIONS["same"], domain, (0,), _read(dtype), _read(dtype))
    if name in ("neg", "abs"):
        code = FUNCTIONS[name] if narrow is None else SIGNED[name]
        return Computation(code, domain, (0,), _read(dtype), _read(dtype))
    bounds = _clip_bounds(q.primitive, dtype)
    if bounds is None:
        return f"computes no {name} of {dtype}"
    if narrow is None and unsigned:
        low, high = (number_bits(v, dtype) for v in bounds)
        return Computation(UNSIGNED["clip"], domain, (0,), _read(dtype), _read(dtype), low, high)
    if narrow is None:
        return Computation(INTEGERS["clip"], domain, (0,), dtype, dtype, *bounds)
    low, high = (number_bits(v, dtype) for v in bounds)
    code = INTEGERS["clip"] if unsigned else SIGNED["clip"]
    return Computation(code, domain, (0,), _read(dtype), _read(dtype), low, high)


def _read(dtype: DType) -> DType:
    return bits_of(dtype)


def _clip_bounds(primitive: Activation, dtype: DType) -> tuple[int, int] | None:
    """Return the bounds that a function of integers keeps its results within, if it does nothing else."""
    limits = np.iinfo(dtype.numpy)
    if primitive.function == "relu":
        return 0, int(limits.max)
    if primitive.function == "sign":
        return max(-1, int(limits.min)), 1
    low, high = (held(v, dtype.numpy) for v in (primitive.alpha, primitive.beta))
    whole = primitive.function == "clip" and low == int(low) and high == int(high)
    return (int(low), int(high)) if whole else None
