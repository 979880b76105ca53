"""Products with weights of 2, 4 or 8 bits that stay packed in memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcasts_to
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.block_records import Records
from clgraph.selector.general import (
    FLOATS,
    General,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan, Table
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, space


@primitive
@frozen
class BlockMatMul(Primitive):
    """``y = a w + bias`` for a ``[..., M, K]`` and w ``[K, N]`` of few bits.

    Inputs: a, w as :class:`Records` in bytes, optional bias that broadcasts to the result.

    Attributes:
        columns, depth: N, K.
        bits, block: Of a weight; weights along K that share a scale.
        zeros: Whether the records have zero points.
        rough: Whether a kernel may round a to 8 bits, a scale a block (ONNX Runtime's accuracy level 4); it need not.
    """

    columns: int
    depth: int
    bits: int
    block: int
    zeros: bool = False
    rough: bool = False

    kind: ClassVar[str] = "block_matmul"
    holds_sizes: ClassVar[bool] = False

    @property
    def records(self) -> Records:
        """How the weights lie in memory."""
        return Records(self.bits, self.block, self.zeros)

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, w = inputs[:2]
        if not a.rank or a.shape[-1] != self.depth:
            raise ShapeError(f"requires rows of {self.depth} elements, not {list(a.shape)}")
        wanted = self.records.shape(self.columns, self.depth)
        if w.dtype != DType.U8 or w.shape != wanted:
            raise ShapeError(f"requires records {list(wanted)} in bytes, not {w}")
        shape = (*a.shape[:-1], self.columns)
        if len(inputs) > 2 and not broadcasts_to(inputs[2].shape, shape):
            raise ShapeError(f"a bias {list(inputs[2].shape)} does not broadcast to {list(shape)}")
        return (a.with_shape(shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, records = inputs[0], np.asarray(inputs[1], np.uint8)
        exact = np.result_type(a.dtype, np.float32)
        weights = self.records.floats(records, self.columns, self.depth).astype(exact)
        y = np.matmul(a.astype(exact), weights)
        if len(inputs) > 2:
            y = y + inputs[2].astype(exact)
        return (np.asarray(y).astype(a.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count * self.depth


def rows_of(q: Query[BlockMatMul]) -> int:
    """Return M: the rows of a."""
    return prod(q.inputs[0].shape[:-1])


@implements(
    BlockMatMul,
    name="block_matmul.ref",
    serves=Serves(dtypes=FLOATS | {DType.U8}, mixed=True, fuses=FUSABLE),
    general=True,
)
class BlockMatMulRef(General[BlockMatMul]):
    """One work-item an output element; neighbours read neighbouring columns of a record."""

    @classmethod
    def further_limits(cls, q: Query[BlockMatMul]) -> str | None:
        if q.outputs[0].dtype not in FLOATS or any(x.dtype != q.outputs[0].dtype for x in (q.own[0], *q.inputs[2:])):
            return "requires one type of floats"
        return None if q.inputs[1].is_dense_plain else "requires dense records"

    @classmethod
    def plan(cls, q: Query[BlockMatMul]) -> Plan:
        s, numbers = ref_table(q)
        posts = post_arguments(q, s.views[4:], len(s.dims))
        jit = float_jit(q.outputs[0].dtype, len(s.dims))
        roles = ("in0", "in1", q.role(2), "out0")
        return Plan((launch("block_matmul/block_matmul_ref", jit, prod(s.counts), *roles, numbers, *posts),))


def ref_table(q: Query[BlockMatMul]) -> tuple[Space, Table]:
    """Return the axes, the columns as one that stays, and the table of ``block_matmul_ref.cl``."""
    p, y, a = q.primitive, q.outputs[0], q.inputs[0]
    bias = View.of(q.own[2], y.shape) if q.arity > 2 else View(0, (0,) * y.rank)
    column = View(0, (*(0,) * (y.rank - 1), 1))
    left = View(a.origin, (*a.all_pitches[:-1], 0))
    s = space(y.shape, [View.of(y), left, bias, column, *post_views(q)], [range(y.rank - 1), [y.rank - 1]])
    numbers = [p.depth, p.bits, p.block, p.records.nbytes, int(p.zeros), a.all_pitches[-1], int(q.arity > 2)]
    return s, table(s.dims, *s.views[:4], numbers)
