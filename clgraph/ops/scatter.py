"""A tensor with some elements replaced: ONNX's ScatterElements, ScatterND and TensorScatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.selector.general import (
    INTEGERS,
    REALS,
    General,
    bits_jit,
    float_jit,
    launch,
    move,
    table,
)
from clgraph.selector.implementation import Serves, implements
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


def _put(y: Array, places: tuple[Any, ...], updates: Array, reduction: str) -> None:
    if reduction == "none":
        y[places] = updates
    else:
        REDUCTIONS[reduction](y, places, updates)


def _check(x: Layout, indices: Layout, updates: Layout, reduction: str) -> None:
    if indices.dtype not in (DType.I32, DType.I64) or updates.dtype != x.dtype:
        raise ShapeError(f"updates {updates} at {indices} do not go into {x}")
    if reduction != "none" and reduction not in REDUCTIONS:
        raise ShapeError(f"{reduction!r} is not one of none, {', '.join(REDUCTIONS)}")


@primitive
@frozen
class ScatterElements(Primitive):
    """x with ``y[indices[i, j], j] = updates[i, j]`` for *axis* 0, and so on; a negative index counts from the back."""

    axis: int = 0
    reduction: str = "none"

    kind: ClassVar[str] = "scatter_elements"
    holds_sizes: ClassVar[bool] = False

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        return Bound(ScatterElements(positive_axis(self.axis, inputs[0].rank), self.reduction), (0, 1, 2))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, indices, updates = inputs
        _check(x, indices, updates, self.reduction)
        if not x.rank == indices.rank or indices.shape != updates.shape:
            raise ShapeError(f"updates {updates} at {indices} do not go into {x}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices, updates = inputs
        y = x.copy()
        places: list[Any] = list(np.indices(indices.shape, sparse=True))
        places[self.axis] = np.where(indices < 0, indices + x.shape[self.axis], indices)
        _put(y, tuple(places), updates, self.reduction)
        return (y,)


@primitive
@frozen
class ScatterND(Primitive):
    """x with ``y[indices[i…]] = updates[i…]``: the last axis of the indices holds coordinates of slices of x."""

    reduction: str = "none"

    kind: ClassVar[str] = "scatter_nd"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, indices, updates = inputs
        _check(x, indices, updates, self.reduction)
        depth = indices.shape[-1] if indices.rank else 0
        if not 1 <= depth <= x.rank or updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
            raise ShapeError(f"updates {updates} at {indices} do not go into {x}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices, updates = inputs
        y = x.copy()
        sizes = np.array(x.shape[: indices.shape[-1]])
        places = np.where(indices < 0, indices + sizes, indices)
        _put(y, tuple(np.moveaxis(places, -1, 0)), updates, self.reduction)
        return (y,)


@primitive
@frozen
class TensorScatter(Primitive):
    """A cache with updates written along *axis* from each batch's place on; *circular* ones go on at the front.

    Inputs: cache ``[batch, ...]``, updates, and optionally the places ``[batch]``, else 0.
    """

    axis: int = -2
    circular: bool = False

    kind: ClassVar[str] = "tensor_scatter"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        axis = positive_axis(self.axis, inputs[0].rank)
        return Bound(TensorScatter(axis, self.circular), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        cache, updates = inputs[:2]
        fits = cache.rank == updates.rank and cache.dtype == updates.dtype and self.axis > 0
        if not fits or any(
            n > d if a == self.axis else n != d for a, (d, n) in enumerate(zip(cache.shape, updates.shape, strict=True))
        ):
            raise ShapeError(f"updates {updates} do not go into {cache} along axis {self.axis}")
        if len(inputs) > 2 and inputs[2].shape != cache.shape[:1]:
            raise ShapeError(f"the places {inputs[2]} are not one for each of {cache.shape[0]} caches")
        return (cache.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        cache, updates = inputs[:2]
        y, (size, count) = cache.copy(), (a.shape[self.axis] for a in (cache, updates))
        starts = inputs[2] if len(inputs) > 2 else np.zeros(cache.shape[0], np.int64)
        for row, start in enumerate(starts):
            places = np.arange(count) + int(start)
            if not self.circular and (start < 0 or start + count > size):
                raise ShapeError(f"{count} updates from {start} on leave the {size} places of axis {self.axis}")
            window = [slice(None)] * (cache.ndim - 1)
            y[row][(*window[: self.axis - 1], places % size)] = updates[row]
        return (y,)


@onnx("Scatter", since=(9,))
@onnx("ScatterElements", since=(11, 13, 16, 18))
def import_scatter_elements(node: OnnxNode) -> Primitive:
    return ScatterElements(node.attribute("axis", 0), node.attribute("reduction", "none"))


@onnx("ScatterND", since=(11, 13, 16, 18))
def import_scatter_nd(node: OnnxNode) -> Primitive:
    return ScatterND(node.attribute("reduction", "none"))


@onnx("TensorScatter", since=(24,))
def import_tensor_scatter(node: OnnxNode) -> Primitive:
    return TensorScatter(node.attribute("axis", -2), node.attribute("mode", "linear") == "circular")


CODES = {"none": 0, **{name: i for i, name in enumerate(REDUCTIONS, 1)}}
"""Of reductions, in kernels."""
_SERVES = Serves(dtypes=frozenset(DType), mixed=True)


def _limits(q: Query[Any]) -> str | None:
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


def _plan(
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


def _without(layout: Layout, axis: int) -> View:
    pitches = layout.all_pitches
    return View(layout.origin, (*pitches[:axis], *pitches[axis + 1 :]))


@implements(ScatterElements, name="scatter_elements.ref", serves=_SERVES, general=True)
class ScatterElementsRef(General[ScatterElements]):
    """One work-item a line along the axis, so that updates of one element come in their order."""

    @classmethod
    def further_limits(cls, q: Query[ScatterElements]) -> str | None:
        return _limits(q)

    @classmethod
    def plan(cls, q: Query[ScatterElements]) -> Plan:
        (_, indices, updates), (y,), axis = q.own, q.outputs, q.primitive.axis
        dims = (*indices.shape[:axis], *indices.shape[axis + 1 :])
        views = [_without(v, axis) for v in (y, updates, indices)]
        line = [(indices.shape[axis], updates.all_pitches[axis], indices.all_pitches[axis])]
        return _plan(q, dims, views, line, [(y.shape[axis], y.all_pitches[axis])], 0)


@implements(ScatterND, name="scatter_nd.ref", serves=_SERVES, general=True)
class ScatterNDRef(General[ScatterND]):
    """One work-item an element of the slices, so that updates of one element come in their order."""

    @classmethod
    def further_limits(cls, q: Query[ScatterND]) -> str | None:
        return _limits(q)

    @classmethod
    def plan(cls, q: Query[ScatterND]) -> Plan:
        (_, indices, updates), (y,) = q.own, q.outputs
        depth, picked = indices.shape[-1], indices.rank - 1
        dims = y.shape[depth:]
        views = [
            View(y.origin, y.all_pitches[depth:]),
            View(updates.origin, updates.all_pitches[picked:]),
            View(indices.origin, (0,) * len(dims)),
        ]
        walked = zip(indices.shape[:-1], updates.all_pitches, indices.all_pitches, strict=False)
        line = list(walked) or [(1, 0, 0)]
        places = list(zip(y.shape[:depth], y.all_pitches, strict=False))
        return _plan(q, dims, views, line, places, indices.all_pitches[-1])


@implements(TensorScatter, name="tensor_scatter.ref", serves=_SERVES, general=True)
class TensorScatterRef(General[TensorScatter]):
    """A copy of the cache, then one work-item an element of the updates."""

    @classmethod
    def plan(cls, q: Query[TensorScatter]) -> Plan:
        (cache, updates, *starts), (y,), f = q.own, q.outputs, q.primitive
        copy = move(cache, ("in0", View.of(cache)), ("out0", View.of(y)), cache.shape)
        groups = [[0], range(1, f.axis), [f.axis], range(f.axis + 1, y.rank)]
        s = space(updates.shape, [View.of(y), View.of(updates)], groups)
        axis = sum(s.groups[:2])
        pitch = starts[0].all_pitches[0] if starts else -1
        numbers = table(s.dims, *s.views, [axis, y.shape[f.axis], y.all_pitches[f.axis], int(f.circular), pitch])
        jit = bits_jit(y.dtype.itemsize, len(s.dims)).define(INDEX=starts[0].dtype if starts else DType.I64)
        places = "in2" if starts else "null"
        args = ("in1", places, "out0", numbers)
        return Plan((copy, launch("tensor_scatter/tensor_scatter_ref", jit, updates.count, *args)))
