"""Products with weights of 2, 4 or 8 bits on GPUs: few rows by the weights as they are, many by floats made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops.block_matmul import BlockMatMul, BlockMatMulRef, ref_table, rows_of
from clgraph.ops.block_records import COLUMNS
from clgraph.ops.matmul import MatMul
from clgraph.selector.general import General, float_jit, launch, post_arguments, table
from clgraph.selector.implementation import IMPLEMENTATIONS, Implementation, Serves, implements
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

ROWS = 4
"""Rows of a group of the kernel with most."""

SLICES = 4
"""Work-items of a column."""

_BANDWIDTH = 0.6
"""Share of the peak that a product of few rows reads the weights at."""

_SERVES = Serves(
    dtypes=frozenset({DType.F32, DType.F16, DType.U8}), mixed=True, kinds=frozenset({"gpu"}), fuses=FUSABLE
)


@implements(BlockMatMul, name="block_matmul.gpu_columns", serves=_SERVES)
class BlockMatMulGpuColumns(General[BlockMatMul]):
    """A group of 64 x 4 work-items makes 64 columns of one row or four."""

    @classmethod
    def further_limits(cls, q: Query[BlockMatMul]) -> str | None:
        if q.device.max_work_group < COLUMNS * SLICES:
            return f"requires groups of {COLUMNS * SLICES} work-items, the device has {q.device.max_work_group}"
        return BlockMatMulRef.further_limits(q)

    @classmethod
    def cost(cls, q: Query[BlockMatMul]) -> float:
        runs = -(-rows_of(q) // ROWS)
        work = q.primitive.flops(q.own, q.outputs) / (q.device.flops * 0.1)
        return q.device.launch_seconds + max(work, runs * q.inputs[1].nbytes / (q.device.bytes_per_second * _BANDWIDTH))

    @classmethod
    def plan(cls, q: Query[BlockMatMul]) -> Plan:
        s, numbers = ref_table(q)
        rows = 1 if rows_of(q) == 1 else ROWS
        entry, jit = "block_matmul_gpu_columns", float_jit(q.outputs[0].dtype, len(s.dims)).define(ROWS=rows)
        grid = (q.inputs[1].shape[0] * COLUMNS, -(-rows_of(q) // rows) * SLICES, 1)
        bias = q.role(2)
        args = ("in0", "in1", bias, "out0", numbers, *post_arguments(q, s.views[4:], len(s.dims)))
        return Plan((Launch(f"block_matmul/{entry}.cl", entry, jit, grid, (COLUMNS, SLICES, 1), args),))


@implements(BlockMatMul, name="block_matmul.gpu_panels", serves=_SERVES)
class BlockMatMulGpuPanels(General[BlockMatMul]):
    """The weights as floats in scratch, then the product by whichever kernel is the cheapest."""

    @classmethod
    def further_limits(cls, q: Query[BlockMatMul]) -> str | None:
        if (reason := BlockMatMulRef.further_limits(q)) is not None:
            return reason
        if q.inputs[0].rank < 2 or q.primitive.depth * q.primitive.columns >= 1 << 31:
            return "requires rows, and weights that 32 bits count"
        product = _product(q)
        reasons = [m.refusal(product) for m in _products()]
        return None if None in reasons else "; ".join(sorted({str(reason) for reason in reasons}))

    @classmethod
    def cost(cls, q: Query[BlockMatMul]) -> float:
        product = _product(q)
        moved = q.inputs[1].nbytes + product.inputs[1].nbytes
        unpacked = q.device.launch_seconds + moved / (q.device.bytes_per_second * _BANDWIDTH)
        return unpacked + _cheapest(product).predicted(product)

    @classmethod
    def plan(cls, q: Query[BlockMatMul]) -> Plan:
        p, product = q.primitive, _product(q)
        words = p.columns * q.inputs[1].shape[1] * p.records.pieces
        sizes = table([p.columns, p.depth, p.bits, p.block, p.records.nbytes, int(p.zeros)])
        jit = float_jit(q.outputs[0].dtype, 1)
        unpack = launch("block_matmul/unpack_records", jit, words, "in1", "scratch0", sizes)
        made = _cheapest(product).plan(product)
        steps = (_renamed(step) for step in made.steps if isinstance(step, Launch))
        return Plan((unpack, *steps), (product.inputs[1].nbytes, *made.scratch))


def _product(q: Query[BlockMatMul]) -> Query[MatMul]:
    """Return the product with the weights as floats ``[K, N]``."""
    weights = Layout(q.inputs[0].dtype, (q.primitive.depth, q.primitive.columns))
    inputs = (q.inputs[0], weights, *q.inputs[2:])
    return Query(MatMul(), inputs, q.outputs, q.device, q.arity, q.fused, q.constant - {1})


def _products() -> list[type[Implementation[Any]]]:
    return list(IMPLEMENTATIONS.of(MatMul.kind, "gpu"))


def _cheapest(product: Query[MatMul]) -> type[Implementation[Any]]:
    able = [m for m in _products() if m.refusal(product) is None]
    return min((m for m in able if not m.general), key=lambda m: m.predicted(product), default=able[0])


def _renamed(step: Launch) -> Launch:
    """Return a step of the product's plan with the places that weights and scratch have in this one."""
    return replace(step, args=tuple(_role(a) if isinstance(a, str) else a for a in step.args))


def _role(name: str) -> str:
    if name.startswith("scratch"):
        return f"scratch{int(name.removeprefix('scratch')) + 1}"
    return "scratch0" if name == "in1" else name
