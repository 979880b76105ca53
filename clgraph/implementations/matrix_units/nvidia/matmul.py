"""Matrix products for NVIDIA GPUs: tiles from a pipeline of copies to local memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.products import counted_product, product_sizes
from clgraph.implementations.gpu.vectors import LANES, vector_jit
from clgraph.implementations.matrix_units.nvidia.products import Products, products
from clgraph.implementations.matrix_units.nvidia.scales import scales_of_matrices
from clgraph.implementations.matrix_units.nvidia.tiles import F16, F16X3, F32, TF32X3, Tiling, chunk, tile_refusal
from clgraph.ops.matmul import MatMul, MatrixProduct, matrix_product
from clgraph.selector.general import General, table
from clgraph.selector.implementation import ORDERED_F32, Serves, implements
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import PTX, SM80, Query

_SERVES = Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"gpu"}), formats=True, fuses=FUSABLE, features=PTX)


class MatMulNvidia(General[MatMul]):
    """K innermost in a; in b too, or for halves N."""

    product: ClassVar[str]

    @classmethod
    def further_limits(cls, q: Query[MatMul]) -> str | None:
        a, b = q.own[:2]
        if a.rank < 2 or b.rank < 2:
            return "requires matrices"
        if any(not x.format.is_plain for slot, x in enumerate((*q.inputs, *q.outputs)) if slot != 1):
            return "requires plain formats, but of constant weights"
        p, size = matrix_product(cls._as_asked(q)), chunk(cls.product)
        by_row = cls.product == F16 and _by_row(p)
        if p.k % size or p.dims[-1] % (size if by_row else LANES):
            return f"requires multiples of {size} terms and of {size if by_row else LANES} columns"
        if p.a_pitch != 1 or p.y.pitches[-1] != 1 or not (by_row or p.b_pitch == 1):
            return "requires the terms side by side in both matrices, and the columns of the result"
        rows = (*p.a.pitches[:-1], *p.b.pitches[:-2], p.b_pitch if by_row else p.b.pitches[-1])
        if any(i % size for i in (p.a.origin, p.b.origin, *rows)):
            return f"requires rows that start at multiples of {size} elements"
        if any(i % LANES for i in (p.y.origin, *p.y.pitches[:-1])):
            return f"requires results that start at multiples of {LANES} elements"
        return tile_refusal(q.device, cls.product)

    @classmethod
    def weights(cls, q: Query[MatMul]) -> Mapping[int, Format | Primitive]:
        b = q.own[1]
        if 1 not in q.constant or b.rank < 2 or q.primitive.transpose_b:
            return {}
        return {1: Format((*range(b.rank - 2), b.rank - 1, b.rank - 2))}

    @classmethod
    def _as_asked(cls, q: Query[MatMul]) -> Query[MatMul]:
        """Return *q* with constant weights in the format that is asked for."""
        asked = cls.weights(q).get(1)
        if not isinstance(asked, Format):
            return q
        return q.with_layouts((q.inputs[0], q.inputs[1].with_format(asked), *q.inputs[2:]), q.outputs)

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        return cls._products(q)[0].cost(q, 4.0)

    @classmethod
    def _products(cls, q: Query[MatMul], tiling: Tiling | None = None) -> tuple[Products, tuple[int, ...]]:
        """Return the products, and what the kernel is told of their scales."""
        if cls.product != F16X3:
            return products(q, cls.product, product_sizes(q), tiling), ()
        scales, more = scales_of_matrices(matrix_product(cls._as_asked(q)))
        return products(q, cls.product, product_sizes(q), tiling, scales), (*scales.numbers, *more)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        return cls.plan_in(q)

    @classmethod
    def plan_in(cls, q: Query[MatMul], tiling: Tiling | None = None) -> Plan:
        """Return the steps by a given tile and number of parts, or by those that are soonest done."""
        made, numbers = cls._products(q, tiling)
        c, dtype = counted_product(q), q.outputs[0].dtype
        s, rank = c.space, len(c.space.dims)
        by_row = cls.product == F16 and _by_row(c.product)
        arguments = ("in0", "in1", c.bias, "out0", made.parts, made.largest, table(c.table.values, numbers), *c.posts)

        def ending() -> Launch:
            dims, views, biased = (*s.dims[:-1], s.dims[-1] // LANES), (s.views[0], s.views[3]), int(q.arity > 2)
            jit = vector_jit(dtype, rank)
            return made.added("matmul/matmul_gpu_sum", jit, dims, views, [c.bias, "out0"], c.posts, biased)

        jit = made.tiling.tile.jit(dtype, rank).define(B_BY_ROW=by_row)
        return made.plan("matmul/matmul_nvidia", jit, arguments, ending)


def _by_row(p: MatrixProduct) -> bool:
    """Whether the columns of b lie side by side, and not its terms."""
    return p.b.pitches[-1] == 1 and p.b_pitch != 1


@implements(MatMul, name="matmul.nvidia_f16", serves=replace(_SERVES, dtypes=frozenset({DType.F16})))
class MatMulNvidiaF16(MatMulNvidia):
    """Halves by matrix units, sums in float."""

    product = F16


@implements(MatMul, name="matmul.nvidia_f32", serves=_SERVES, tags={ORDERED_F32})
class MatMulNvidiaF32(MatMulNvidia):
    """Floats by multiply-adds: every product and sum is one of float32."""

    product = F32


@implements(MatMul, name="matmul.nvidia_tf32x3", serves=replace(_SERVES, features=SM80 | {"tf32x3"}))
class MatMulNvidiaTf32x3(MatMulNvidia):
    """Floats by matrix units, each as the sum of two tf32; only where the precision ``tf32x3`` is asked for."""

    product = TF32X3


@implements(MatMul, name="matmul.nvidia_f16x3", serves=replace(_SERVES, features=PTX | {"f16x3"}))
class MatMulNvidiaF16x3(MatMulNvidia):
    """Floats by matrix units, each as the scaled sum of two halves; only where the precision ``f16x3`` is asked for."""

    product = F16X3
