"""Interpolation of planes on CPU devices by lists of taps: any mode, along rows and columns."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.ops.resize import Resize, tap_values
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan, Table
from clgraph.selector.query import Query

_ROWS = 16
_ITEMS = 4
"""Work-items a worker."""

_SHARE = 0.1
"""Of the peak, for the products of all taps."""


@implements(Resize, name="resize.rows", serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})))
class ResizeRows(General[Resize]):
    """A work-item interpolates sixteen rows of a plane, first down, then across: as many products as taps in a row."""

    @classmethod
    def further_limits(cls, q: Query[Resize]) -> str | None:
        x, (y,) = q.inputs[0], q.outputs
        if q.primitive.mode == "nearest" or x.rank < 2:
            return "mixes along two axes"
        if not x.is_dense_plain or not y.is_dense_plain:
            return "requires tensors without gaps"
        if not x.count or not y.count:
            return "requires elements"
        kept = all(q.primitive.keeps(axis, x.shape[axis]) for axis in range(x.rank - 2))
        return None if kept else "resizes the last two axes alone"

    @classmethod
    def cost(cls, q: Query[Resize]) -> float:
        x, (y,) = q.inputs[0].shape, q.outputs
        (down, _), (across, _) = _taps(q)
        products = y.count / y.shape[-1] * x[-1] * (down + 4) + y.count * (across + 4)
        traffic = (q.inputs[0].nbytes + y.nbytes) / (q.device.bytes_per_second * 0.5)
        return q.device.launch_seconds + max(2 * products / (q.device.flops * _SHARE), traffic)

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        x, (y,) = q.inputs[0].shape, q.outputs
        ((down, first), (across, second)), planes = _taps(q), prod(x[:-2])
        jobs = planes * -(-y.shape[-2] // _ROWS)
        items = min(jobs, _ITEMS * q.device.workers)
        numbers = table([planes, *x[-2:], *y.shape[-2:], down, across])
        step = launch("resize/resize_rows", Jit(), items, "in0", "out0", "scratch0", numbers, Table((*first, *second)))
        return Plan((step,), (items * _ROWS * -(-x[-1] // 16) * 16 * 4,))


def _taps(q: Query[Resize]) -> tuple[tuple[int, list[int]], tuple[int, list[int]]]:
    """Return what :func:`tap_values` says of rows and of columns."""
    x, last = q.inputs[0], q.inputs[0].rank - 1
    down, across = (tap_values(q.primitive.counting_taps(axis, x.shape[axis])) for axis in (last - 1, last))
    return down, across
