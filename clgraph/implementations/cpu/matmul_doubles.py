"""Products of plain matrices of doubles on CPU devices."""

from __future__ import annotations

from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.memo import remembered
from clgraph.errors import UnsupportedError
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds, worker_flops
from clgraph.implementations.cpu.strided_product import StridedProduct, is_dots, nested_product
from clgraph.ops.matmul import MatMul
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_COLUMNS = 16
_ROWS = 48
"""Rows and columns of a piece."""


@descriptor("matmul_doubles", library="rare", any_alignment=True)
class MatMulDoublesDesc(Descriptor):
    """Fields as in ``matmul_doubles.cl``."""

    a: Pointer
    b: Pointer
    bias: Pointer
    c: Pointer
    a_batch: Long
    b_batch: Long
    bias_batch: Long
    c_batch: Long
    a_outer: Long
    b_outer: Long
    bias_outer: Long
    c_outer: Long
    inner: Int
    a_row: Int
    a_step: Int
    b_row: Int
    b_column: Int
    bias_row: Int
    bias_column: Int
    biased: Int
    c_row: Int
    rows: Int
    columns: Int
    depth: Int
    dots: Int
    groups: Int
    spans: Int
    pieces: Int
    ticket_pieces: Int


def _pieces(p: StridedProduct) -> tuple[int, int]:
    """Return the pieces side by side and below one another."""
    return -(-p.columns // _COLUMNS), -(-p.rows.size // _ROWS)


def _is_dots(q: Query[MatMul], p: StridedProduct) -> bool:
    """Whether the kernel multiplies columns one by one; that of integers never does."""
    return q.outputs[0].dtype == DType.F64 and is_dots(q, p)


def _piece_seconds(q: Query[MatMul], p: StridedProduct) -> float:
    """Return one worker's time for a piece; of doubles a vector has half as many."""
    rows = max(3, min(p.rows.size, _ROWS))
    columns = 2 * p.columns if _is_dots(q, p) else _COLUMNS
    return p.depth * rows * columns * 4 / worker_flops(q.device)


@remembered
def _tickets(q: Query[MatMul]) -> TicketRanges:
    p = nested_product(q)
    groups, spans = _pieces(p)
    return runs(groups * spans * p.matrices, _piece_seconds(q, p), q.device)


@implements(MatMul, name="matmul.doubles", serves=Serves(dtypes=frozenset({DType.F64}), kinds=frozenset({"cpu"})))
class MatMulDoubles(Implementation[MatMul]):
    """Row-major matrices in register blocks of 6 rows by 16 columns."""

    @classmethod
    def limits(cls, q: Query[MatMul]) -> str | None:
        if q.outputs[0].dtype == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        if not q.outputs[0].is_dense_plain:
            return f"multiplies into a dense tensor, not into {q.outputs[0]}"
        try:
            nested_product(q)
        except UnsupportedError as error:
            return str(error)
        return None

    @classmethod
    def cost(cls, q: Query[MatMul]) -> float:
        p, (groups, spans) = nested_product(q), _pieces(nested_product(q))
        work = groups * spans * p.matrices * _piece_seconds(q, p)
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, work, moved, _tickets(q).count, weights=q.inputs[1].nbytes)

    @classmethod
    def plan(cls, q: Query[MatMul]) -> Plan:
        tickets, scratch, fields = cls.fields(q)
        return Plan((Tile("matmul_doubles", MatMulDoublesDesc(**fields), tickets, scratch=scratch),))

    @classmethod
    def fields(cls, q: Query[MatMul]) -> tuple[int, int, dict[str, Any]]:
        """Return the number of tickets, bytes of scratch, and the values of the descriptor."""
        p, tickets, biased, size = nested_product(q), _tickets(q), q.arity > 2, q.outputs[0].dtype.itemsize
        groups, spans = _pieces(p)
        values = {
            "a": Ref("in0", size * q.inputs[0].origin),
            "b": Ref("in1", size * q.inputs[1].origin),
            "bias": Ref("in2", size * q.inputs[2].origin) if biased else Ref("in0"),
            "c": Ref("out0"),
            "a_batch": p.batch.pitches[0],
            "b_batch": p.batch.pitches[1],
            "bias_batch": p.batch.pitches[3] if biased else 0,
            "c_batch": p.batch.pitches[2],
            "a_outer": p.outer.pitches[0],
            "b_outer": p.outer.pitches[1],
            "bias_outer": p.outer.pitches[3] if biased else 0,
            "c_outer": p.outer.pitches[2],
            "inner": p.batch.size,
            "a_row": p.rows.pitches[0],
            "a_step": p.a_step,
            "b_row": p.b_row,
            "b_column": p.b_column,
            "bias_row": p.rows.pitches[3] if biased else 0,
            "bias_column": p.operands[0][1] if biased else 0,
            "biased": int(biased),
            "c_row": p.rows.pitches[2],
            "rows": p.rows.size,
            "columns": p.columns,
            "depth": p.depth,
            "dots": int(_is_dots(q, p)),
            "groups": groups,
            "spans": spans,
            "pieces": groups * spans * p.matrices,
            "ticket_pieces": tickets.each,
        }
        return tickets.count, max(1, p.depth) * _COLUMNS * size, values
