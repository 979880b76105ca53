"""What replacing some elements of a tensor shares: reductions, and the kernel of ScatterElements and ScatterND."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array
from clgraph.selector.general import INTEGERS, REALS, bits_jit, float_jit, launch, move, table
from clgraph.selector.implementation import Serves
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.storage import stored
from clgraph.selector.views import View, space

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}
"""How an update joins what is there; ``none`` replaces it, the last of several to one place."""


def put(y: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> None:
    """Write *updates* to *places* of y, which is contiguous, or join them to what is there.

    Raises:
        IndexError: A place is outside of y.
    """
    if reduction == "none":
        y[places] = updates
    elif updates.size:
        outer, rest = y.shape[: len(places)], y.shape[len(places) :]
        try:  # NumPy joins by one flat index in a fifth of the time that several take
            flat = np.ravel_multi_index(np.broadcast_arrays(*places), outer).ravel()
        except ValueError as error:
            raise IndexError(f"an index is out of range of {list(outer)}") from error
        REDUCTIONS[reduction](y.reshape(-1, *rest), flat, updates.reshape(-1, *rest))


def check(x: Layout, indices: Layout, updates: Layout, reduction: str) -> None:
    """Raise ``ShapeError`` unless types and *reduction* are such that there are."""
    if indices.dtype not in (DType.I32, DType.I64) or updates.dtype != x.dtype:
        raise ShapeError(f"updates {updates} at {indices} do not go into {x}")
    if reduction != "none" and reduction not in REDUCTIONS:
        raise ShapeError(f"{reduction!r} is not one of none, {', '.join(REDUCTIONS)}")


CODES = {"none": 0, **{name: i for i, name in enumerate(REDUCTIONS, 1)}}
"""Of reductions, in kernels."""
SERVES = Serves(dtypes=frozenset(DType), mixed=True)


def limits(q: Query[Any]) -> str | None:
    """Say why the kernel does not compute with the element type, or return ``None``."""
    x = q.inputs[0].dtype
    if q.primitive.reduction == "none":
        return None
    if x == DType.F64 and "fp64" not in q.device.features:
        return "needs fp64 to compute with doubles"
    return None if x in REALS | INTEGERS | {DType.BOOL} else f"computes no {q.primitive.reduction} of {x}"


def _jit(q: Query[Any], rank: int) -> Jit:
    x = q.inputs[0].dtype
    if q.primitive.reduction == "none":
        jit = bits_jit(x.itemsize, rank)
        jit = jit.define(V=dict(jit.macros)["T"])
    elif x in REALS:
        jit = float_jit(x, rank)
    else:
        jit = Jit().define(RANK=rank, T=x, V=x, **{"STORE(p, i, v)": stored(x)})
    return jit.define(INDEX=q.inputs[1].dtype)


def scattered(
    q: Query[Any],
    dims: Sequence[int],
    views: Sequence[View],
    line: Sequence[tuple[int, int, int]],
    places: Sequence[tuple[int, int]],
    pitch: int,
) -> Plan:
    """Return the copy and the launch of ``scatter_ref``.

    Args:
        dims, views: Of the work-items, on y, the updates and the indices.
        line: Size, pitch of the updates and pitch of the indices of each axis that a work-item walks along.
        places: Size and pitch of each axis of y that a coordinate is for; *pitch* from one coordinate to the next.
    """
    x, (y,) = q.inputs[0], q.outputs
    copy = move(x, ("in0", View.of(x)), ("out0", View.of(y)), x.shape)
    s = space(tuple(dims), views)
    columns = list(zip(*line, strict=True))
    numbers = table(
        s.dims,
        *s.views,
        [len(line), *(n for column in columns for n in column)],
        [len(places), pitch, *(n for place in places for n in place)],
        CODES[q.primitive.reduction],
    )
    jit = _jit(q, len(s.dims))
    return Plan((copy, launch("scatter/scatter_ref", jit, s.counts[0], "in1", "in2", "out0", numbers)))
