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
        kept = all(q.primitive.keeps(axis, x.shape[axis]) for axis in range(_row_axis(q)))
        return None if kept else "resizes two axes alone, the last one among them, or one"

    @classmethod
    def cost(cls, q: Query[Resize]) -> float:
        (y,), axis = q.outputs, _row_axis(q)
        (down, _), (across, _) = _taps(q)
        read, made = (prod(v.shape[axis + 1 :]) for v in (q.inputs[0], y))
        products = y.count / made * read * (down + 4) + y.count * (across + 4)
        traffic = (q.inputs[0].nbytes + y.nbytes) / (q.device.bytes_per_second * 0.5)
        return q.device.launch_seconds + max(2 * products / (q.device.flops * _SHARE), traffic)

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        x, y, axis = q.inputs[0].shape, q.outputs[0].shape, _row_axis(q)
        ((down, first), (across, second)), planes = _taps(q), prod(x[:axis])
        read, made = prod(x[axis + 1 :]), prod(y[axis + 1 :])
        jobs = planes * -(-y[axis] // _ROWS)
        items = min(jobs, _ITEMS * q.device.workers)
        numbers = table([planes, x[axis], read, y[axis], made, down, across])
        step = launch("resize/resize_rows", Jit(), items, "in0", "out0", "scratch0", numbers, Table((*first, *second)))
        return Plan((step,), (items * _ROWS * (-(-read // 16) if across else 1) * 16 * 4,))


def _row_axis(q: Query[Resize]) -> int:
    """Return the axis of the rows: the last but one, or the last that is resized; what is behind are the columns."""
    shape = q.inputs[0].shape
    resized = [axis for axis, size in enumerate(shape) if not q.primitive.keeps(axis, size)]
    return min(len(shape) - 2, resized[-1] if resized else 0)


def _taps(q: Query[Resize]) -> tuple[tuple[int, list[int]], tuple[int, list[int]]]:
    """Return what :func:`tap_values` says of rows and of columns; nothing of those that stay."""
    shape, axis = q.inputs[0].shape, _row_axis(q)
    rows = tap_values(q.primitive.counting_taps(axis, shape[axis]))
    last = len(shape) - 1
    if axis < last - 1 or q.primitive.keeps(last, shape[last]):
        return rows, (0, [])
    return rows, tap_values(q.primitive.counting_taps(last, shape[last]))
