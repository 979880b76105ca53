"""Products of matrices of 8-bit integers: ONNX's MatMulInteger."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered_of_arrays, shared_of_arrays
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.composite import Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, primitive
from clgraph.graph.topology import Inlinable, Topology
from clgraph.ops.cast_like import CastLike
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul, matrix_product
from clgraph.ops.reorder import Reorder
from clgraph.ops.slice import Slice
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

BYTES = frozenset({DType.U8, DType.I8})
EXACT = 2**24
"""Floats hold all integers up to here, so that sums that stay below come out right in any order."""
PARTS = 32
"""Sums of floats that a product is made of at most, before it is one of integers, whose kernel is general."""


@primitive
@frozen
class IntegerMatMul(Inlinable):
    """``y = (a - a_zero) @ (b - b_zero)`` of 8-bit integers in int32, exactly.

    Inputs: a ``[..., M, K]``, b ``[..., K, N]``, a_zero (one number, ``[M]`` or ``[..., M, 1]``), b_zero (one number,
    ``[N]`` or ``[..., 1, N]``). It becomes a product of floats, or a few, where these are exact too.
    """

    kind: ClassVar[str] = "integer_matmul"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, b, *zeros = inputs
        if a.dtype not in BYTES or b.dtype not in BYTES:
            raise ShapeError(f"a product of integers requires u8 and i8, not {a.dtype} and {b.dtype}")
        (y,) = MatMul().infer([a, b])
        for x, zero, axis in ((a, zeros[0], -2), (b, zeros[1], -1)):
            wide = _shape_of_zero(zero.shape, axis)
            if zero.count != 1 and (x.rank < 2 or broadcast(wide, x.shape) != x.shape or wide[-3 - axis] != 1):
                raise ShapeError(f"the zero point {zero} does not fit {x}")
        return (Layout(DType.I32, y.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, b, a_zero, b_zero = (x.astype(np.int64) for x in inputs)
        return (np.asarray(np.matmul(a - _spread(a_zero, -2), b - _spread(b_zero, -1))).astype(np.int32),)

    def inline(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
        b, b_zero = values[1], values[3]
        if inputs[1].rank < 2 or inputs[2].rank > 1 or inputs[2].count != 1:
            return None
        if b is None or b_zero is None:
            return self._of_unknown(inputs, values)
        bounds = _cuts(b, b_zero, values[2])
        if bounds is None:
            return None
        c, weights = Composition(inputs, values), _floats(b, b_zero)
        a, found = as_floats(c, c.inputs[0], c.inputs[2]), ""
        for start, stop in bounds:
            part = a if len(bounds) == 1 else c.add(Slice((start,), (stop,), axes=(inputs[0].rank - 1,)), a)
            y = c.add(MatMul(), part, c.constant(np.ascontiguousarray(weights[..., start:stop, :])))
            y = c.add(Reorder(DType.I32), y)
            found = c.add(Eltwise("add"), found, y) if found else y
        return c.finish(found)

    def _of_unknown(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Topology | None:
        """Return sums of products of floats, each of as many terms as are exact whatever the matrices hold."""
        count, terms = inputs[1].shape[-2], EXACT // (_largest(inputs[0], values[2]) * _largest(inputs[1], values[3]))
        if inputs[0].rank < 2 or inputs[3].rank > 1 or inputs[3].count != 1 or count > PARTS * terms:
            return None
        c, found = Composition(inputs, values), ""
        floats = [as_floats(c, x, zero) for x, zero in zip(c.inputs[:2], c.inputs[2:], strict=True)]
        axes = inputs[0].rank - 1, inputs[1].rank - 2
        parts = -(-count // terms)
        for i in range(parts):
            cut = (count * i // parts,), (count * (i + 1) // parts,)
            both = [v if parts == 1 else c.add(Slice(*cut, axes=(a,)), v) for v, a in zip(floats, axes, strict=True)]
            y = c.add(Reorder(DType.I32), c.add(MatMul(), *both))
            found = c.add(Eltwise("add"), found, y) if found else y
        return c.finish(found) if found else None

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return MatMul().flops(inputs[:2], outputs)


def _largest(x: Layout, zero: Array | None) -> int:
    """Return the largest difference of an integer of *x* and the zero point, which may be known."""
    low, high = x.dtype.bounds
    return high - low if zero is None else max(int(zero.min()) - low, high - int(zero.min()))


def _less(b: Array, zero: Array, exact: type[np.generic]) -> Array:
    return b.astype(exact) - _spread(zero.astype(exact), -1)


@shared_of_arrays
def _floats(b: Array, zero: Array) -> Array:
    return _less(b, zero, np.float32)


@remembered_of_arrays
def _cuts(b: Array, b_zero: Array, a_zero: Array | None) -> list[tuple[int, int]] | None:
    """Return the ranges of rows of *b* whose sums are exact in floats, as :func:`exact_parts` does."""
    weights = _less(b, b_zero, np.int16)
    return exact_parts(np.moveaxis(weights, -2, 0).reshape(b.shape[-2], -1), a_zero)


def exact_parts(weights: Array, zero: Array | None) -> list[tuple[int, int]] | None:
    """Return the ranges to cut sums into so that each is exact in floats; ``None``: more than ``PARTS`` of them.

    Args:
        weights: Integers, their first axis added up.
        zero: Of the 8-bit integers that they are multiplied with, where it is known.
    """
    count = len(weights)
    largest = 255
    if zero is not None:
        low, high = int(np.iinfo(zero.dtype).min) - zero.astype(int), int(np.iinfo(zero.dtype).max) - zero.astype(int)
        largest = int(max(np.abs(low).max(), np.abs(high).max()))
    sizes = np.abs(weights)
    least = -(-int(sizes.sum(0, np.int64).max(initial=0)) * largest // EXACT)
    for parts in range(max(least, 1), PARTS + 1):
        ranges = list(itertools.pairwise(count * i // parts for i in range(parts + 1)))
        if max(int(sizes[a:b].sum(0, np.int64).max(initial=0)) for a, b in ranges) * largest <= EXACT:
            return ranges
    return None


def as_floats(c: Composition, x: str, zero: str) -> str:
    """Add ``x - zero`` in float32; a zero of several numbers has one an index of the first axis."""
    return c.add(Dequantize(0), x, c.constant(np.ones(c.layout(zero).shape, np.float32)), zero)


def _shape_of_zero(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape, 1) if len(shape) == 1 and axis == -2 else (1, *shape) if len(shape) == 1 else shape


def _spread(zero: Array, axis: int) -> Array:
    return zero.reshape(()) if zero.size == 1 else zero.reshape(_shape_of_zero(zero.shape, axis))


def with_zeros(node: OnnxNode) -> list[str]:
    """Return both operands and their zero points: where none is given, a zero of the operand's type."""
    operands, given = node.inputs[:2], dict(enumerate(node.inputs[2:]))
    return [*operands, *(given.get(i) or zero_like(node, operand) for i, operand in enumerate(operands))]


def zero_like(node: OnnxNode, operand: str) -> str:
    """Return a zero point of 0, of the type of *operand*."""
    return node.emit(CastLike(), node.literal(np.zeros((), np.uint8)), operand)[0]


@onnx("MatMulInteger", since=(10,))
def import_matmul_integer(node: OnnxNode) -> tuple[str, ...]:
    return node.emit(IntegerMatMul(), *with_zeros(node))


@implements(
    IntegerMatMul, name="integer_matmul.ref", serves=Serves(dtypes=BYTES | {DType.I32}, mixed=True), general=True
)
class IntegerMatMulRef(General[IntegerMatMul]):
    """One work-item an output element, any rank, any batch."""

    @classmethod
    def plan(cls, q: Query[IntegerMatMul]) -> Plan:
        whole: Query[Any] = q
        p = matrix_product(replace(whole, primitive=MatMul(), inputs=q.inputs[:2], arity=2))
        zeros = [_view(zero, p.dims, axis) for zero, axis in ((q.own[2], -2), (q.own[3], -1))]
        s = space(p.dims, [p.y, p.a, p.b, *zeros])
        numbers = table(s.dims, *s.views, [p.k, p.a_pitch, p.b_pitch])
        a, b, a_zero, b_zero = (x.dtype for x in q.own)
        jit = Jit().define(RANK=len(s.dims), A=a, B=b, ZERO_A=a_zero, ZERO_B=b_zero)
        kernel = "integer_matmul/integer_matmul_ref"
        return Plan((launch(kernel, jit, s.counts[0], "in0", "in1", "in2", "in3", "out0", numbers),))


def _view(zero: Layout, dims: tuple[int, ...], axis: int) -> View:
    """Return the view of a zero point on the (batch, M, N) of the result."""
    if zero.count == 1:
        return View(zero.origin, (0,) * len(dims))
    if zero.rank == 1:
        return View(zero.origin, tuple(zero.all_pitches[0] if a == len(dims) + axis else 0 for a in range(len(dims))))
    return View.of(zero, dims)
