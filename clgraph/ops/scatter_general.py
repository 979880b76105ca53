"""Scattering on devices: a copy of the tensor, then the updates line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops.scatter import REDUCTIONS, ScatterElements, ScatterND
from clgraph.selector.general import FLOATS, General, View, bits_jit, float_jit, launch, move, space, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_CODES = {"none": 0, **{name: i for i, name in enumerate(REDUCTIONS, 1)}}
_SERVES = Serves(dtypes=frozenset(DType), mixed=True)


def _limits(q: Query[Any]) -> str | None:
    if q.primitive.reduction != "none" and q.inputs[0].dtype in (DType.F64, DType.BOOL):
        return f"computes no {q.primitive.reduction} of {q.inputs[0].dtype}"
    return None


def _jit(q: Query[Any], rank: int) -> Jit:
    x = q.inputs[0].dtype
    if q.primitive.reduction == "none":
        jit = bits_jit(x.itemsize, rank)
        jit = jit.define(V=dict(jit.macros)["T"])
    elif x in FLOATS:
        jit = float_jit(x, rank)
    else:
        jit = Jit().define(RANK=rank, T=x, V=x)
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
        _CODES[q.primitive.reduction],
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
