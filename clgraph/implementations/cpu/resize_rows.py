"""Interpolation of planes on CPU devices by lists of taps: any mode, along rows and columns; channels may be behind."""

from __future__ import annotations

from math import prod

import numpy as np

from clgraph.core.dtype import DType
from clgraph.ops.resize import Resize
from clgraph.ops.resize_taps import Taps, tap_values
from clgraph.selector.general import General, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan, Table
from clgraph.selector.query import Query

_ROWS = 16
_VECTOR = 16
_ITEMS = 4
"""Work-items a worker."""

_SHARE = 0.1
"""Of the peak, for the products of all taps."""


@implements(
    Resize, name="resize.rows", serves=Serves(dtypes=frozenset({DType.F32, DType.F64}), kinds=frozenset({"cpu"}))
)
class ResizeRows(General[Resize]):
    """A work-item interpolates sixteen rows of a plane, first down, then across: as many products as taps in a row."""

    @classmethod
    def further_limits(cls, q: Query[Resize]) -> str | None:
        x, (y,) = q.inputs[0], q.outputs
        if q.primitive.mode == "nearest" or x.rank < 2:
            return "mixes along two axes"
        if x.dtype == DType.F64 and "fp64" not in q.device.features:
            return "needs fp64 for doubles"
        if not x.is_dense_plain or not y.is_dense_plain:
            return "requires tensors without gaps"
        if not x.count or not y.count:
            return "requires elements"
        return "resizes one axis, or two neighbours" if _axes(q) is None else None

    @classmethod
    def cost(cls, q: Query[Resize]) -> float:
        (y,), (axis, _, _) = q.outputs, _planes(q)
        (down, _), (across, _) = _taps(q)
        read, made = (prod(v.shape[axis + 1 :]) for v in (q.inputs[0], y))
        products = (y.count / made * read * (down + 4) + y.count * (across + 4)) * y.dtype.itemsize / 4
        traffic = (q.inputs[0].nbytes + y.nbytes) / (q.device.bytes_per_second * 0.5)
        return q.device.launch_seconds + max(2 * products / (q.device.flops * _SHARE), traffic)

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        x, y, (axis, _, unit) = q.inputs[0].shape, q.outputs[0].shape, _planes(q)
        ((down, first), (across, second)), planes = _taps(q), prod(x[:axis])
        read, made = prod(x[axis + 1 :]), prod(y[axis + 1 :])
        jobs = planes * -(-y[axis] // _ROWS)
        items = min(jobs, _ITEMS * q.device.workers)
        jit = Jit().define(DOUBLES=1) if q.outputs[0].dtype == DType.F64 else Jit()
        numbers = table([planes, x[axis], read, y[axis], made, down, across, unit if unit >= _VECTOR else 1])
        step = launch("resize/resize_rows", jit, items, "in0", "out0", "scratch0", numbers, Table((*first, *second)))
        return Plan((step,), (items * _ROWS * (-(-read // 16) if across else 1) * 16 * q.outputs[0].dtype.itemsize,))


def _axes(q: Query[Resize]) -> tuple[int, int | None] | None:
    """Return the axes of rows and of columns, no columns where what is behind rows stays; ``None`` where others go."""
    shape = q.inputs[0].shape
    resized = [axis for axis, size in enumerate(shape) if not q.primitive.keeps(axis, size)]
    last = len(shape) - 1
    if len(resized) == 2 and resized[1] == resized[0] + 1:
        return resized[0], resized[1]
    if len(resized) > 1:
        return None
    return (last - 1, last) if resized == [last] else (resized[0] if resized else 0, None)


def _planes(q: Query[Resize]) -> tuple[int, int | None, int]:
    """Return the axes of rows and of columns, and how many neighbours behind a column have its taps."""
    found = _axes(q)
    assert found is not None
    row, column = found
    return row, column, 1 if column is None else prod(q.inputs[0].shape[column + 1 :])


def _taps(q: Query[Resize]) -> tuple[tuple[int, list[int]], tuple[int, list[int]]]:
    """Return what :func:`tap_values` says of rows and of columns; nothing of those that stay.

    Fewer neighbours behind a column than a vector has are columns of their own.
    """
    shape, (row, column, unit) = q.inputs[0].shape, _planes(q)
    dtype = q.outputs[0].dtype
    rows = tap_values(q.primitive.taps(row, shape[row]), dtype)
    if column is None:
        return rows, (0, [])
    taps = q.primitive.taps(column, shape[column])
    if unit < _VECTOR:
        places = taps.places[:, None] * unit + np.arange(unit)[:, None]
        taps = Taps(places.reshape(len(places) * unit, places.shape[2]), taps.weights.repeat(unit, axis=0))
    return rows, tap_values(taps, dtype)
