"""Arithmetic of shapes without binding its layers, which costs several times what they compute on a few elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.graph.attributes import ints, positive_axes
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.ops.eltwise import ARITHMETIC, COMPARISONS

Quick = Callable[..., Array]
"""Makes the only result of a layer of its arguments; raises any error where it cannot, or where they do not fit."""


def quick(layer: Layer, constants: Mapping[str, Array]) -> Quick | None:
    """Return what computes *layer* like its reference, ``None`` where nothing here does; it may alias arguments."""
    make = _MAKERS.get(layer.primitive.kind)
    return None if make is None else make(layer.primitive, [constants.get(name) for name in layer.inputs])


def _unsqueeze(primitive: Any, known: Sequence[Array | None]) -> Quick | None:
    if primitive.reads and known[1] is None:
        return None
    axes = ints(known[1]) if primitive.reads and known[1] is not None else primitive.axes
    indices: dict[int, tuple[slice | None, ...]] = {}

    def run(x: Array, *_: Array) -> Array:
        if (index := indices.get(x.ndim)) is None:
            rank = x.ndim + len(axes)
            added = positive_axes(axes, rank)
            index = indices[x.ndim] = tuple(None if a in added else slice(None) for a in range(rank))
        return x[index]

    return run


def _gather(primitive: Any, known: Sequence[Array | None]) -> Quick | None:
    places, axis = known[1], primitive.axis
    if places is None or places.size != 1 or places.ndim > 1:
        return None
    place, shape = int(places.ravel()[0]), places.shape

    def run(x: Array, _: Array) -> Array:
        size = x.shape[axis]
        at = min(max(place + size if place < 0 else place, 0), size - 1)
        if x.ndim == 1:
            return x[at : at + 1].reshape(shape)
        return x.take([at] if shape else at, axis)

    return run


def _sequence(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    def run(start: Array, limit: Array, step: Array) -> Array:
        first, last, delta = int(start.item()), limit.item(), step.item()
        if start.dtype != np.int64 or type(last) is not int or type(delta) is not int:
            raise TypeError("only ranges of int64 are computed so")
        return np.arange(first, last, delta, dtype=np.int64)

    return run if primitive.count is None else None


def _slice(primitive: Any, known: Sequence[Array | None]) -> Quick | None:
    slots = {name: slot for slot, name in enumerate(primitive.reads, 1)}
    fixed = [known[slots[name]] for name in ("axes", "steps") if name in slots]
    if slots.keys() < {"starts", "ends"} or any(a is None for a in fixed):
        return None
    axes = known[slots["axes"]] if "axes" in slots else None
    steps = known[slots["steps"]] if "steps" in slots else None
    if steps is not None and (steps < 1).any():
        return None
    starts_at, ends_at = slots["starts"], slots["ends"]
    axes_given, steps_given = None if axes is None else ints(axes), None if steps is None else ints(steps)

    def run(x: Array, *rest: Array) -> Array:
        starts, ends = rest[starts_at - 1].tolist(), rest[ends_at - 1].tolist()
        index: list[slice] = [slice(None)] * x.ndim
        own_axes = range(len(starts)) if axes_given is None else axes_given
        own_steps = steps_given or (1,) * len(starts)
        for axis, start, end, step in zip(own_axes, starts, ends, own_steps, strict=True):
            index[axis] = slice(start, end, step)
        return np.ascontiguousarray(x[tuple(index)])

    return run


def _reshape(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    keeps = not primitive.zero_is_zero

    def run(x: Array, *shape: Array) -> Array:
        wanted = shape[0].tolist() if primitive.reads else primitive.shape
        if keeps and 0 in wanted:
            wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
        return x.reshape(wanted)

    return run


def _expand(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    def run(x: Array, shape: Array) -> Array:
        wanted = shape.tolist()
        more = len(wanted) - x.ndim
        own = [1] * more + list(x.shape)
        wanted = [1] * -more + wanted
        if all(n in (1, d) for d, n in zip(own, wanted, strict=True)):
            return x.reshape(own)
        made = np.empty([n if d == 1 else d for d, n in zip(own, wanted, strict=True)], x.dtype)
        if any(n not in (1, d) for d, n in zip(made.shape, wanted, strict=True)):
            raise ValueError("shapes do not broadcast")
        made[...] = x
        return made

    return run if primitive.reads else None


def _repeat(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    def run(x: Array, repeats: Array) -> Array:
        counts = repeats.tolist()
        if len(counts) != x.ndim:
            raise ValueError("not one number for each axis")
        return np.tile(x, counts)

    return run if primitive.reads else None


def _fill(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    dtype = primitive.dtype.numpy

    def run(shape: Array) -> Array:
        return np.full(shape.tolist(), primitive.value, dtype)

    return run if primitive.shape is None else None


def _eltwise(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    compares = primitive.function in COMPARISONS
    function = (COMPARISONS if compares else ARITHMETIC).get(primitive.function)
    if function is None or primitive.function == "pow":  # whose exponents may be of another type
        return None

    def run(a: Array, b: Array) -> Array:
        if a.dtype != b.dtype or a.dtype.kind == "V":
            raise TypeError("only numbers of NumPy's own and one type are computed so")
        made: Array = function(a, b)
        if type(made) is not np.ndarray:
            made = np.asarray(made)
        return made if compares or made.dtype == a.dtype else made.astype(a.dtype)

    return run


def _where(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    def run(condition: Array, a: Array, b: Array) -> Array:
        if condition.dtype != np.bool_ or a.dtype != b.dtype:
            raise TypeError("only branches of one type are chosen so")
        return np.where(condition, a, b)

    return run


def _shape_of(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    part = slice(primitive.start, primitive.end)

    def run(x: Array) -> Array:
        return np.array(x.shape[part], np.int64)

    return run


def _reorder(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    if primitive.format is not None or primitive.halo:
        return None
    dtype = primitive.dtype.numpy
    plain = dtype.isbuiltin == 1  # others are rounded by rules of their own

    def run(x: Array) -> Array:
        if x.dtype == dtype:
            return x
        if plain and x.dtype.kind in "biu":
            return x.astype(dtype)
        result: Array = primitive.reference(x)[0]
        return result

    return run


def _concat(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    axis = primitive.axis

    def run(*arguments: Array) -> Array:
        if len({a.dtype for a in arguments}) > 1:
            raise TypeError("only arrays of one type are joined so")
        return np.concatenate(arguments, axis)

    return run


def _triangle(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    half = np.triu if primitive.upper else np.tril

    def run(x: Array, *diagonal: Array) -> Array:
        if x.ndim < 2 or x.dtype.kind == "V":
            raise TypeError("only matrices of NumPy's own numbers are halved so")
        return half(x, int(diagonal[0].item()) if diagonal else 0)

    return run


def _cumulative_sum(primitive: Any, known: Sequence[Array | None]) -> Quick | None:
    axis = primitive.axis if primitive.axis is not None or known[1] is None else int(known[1].item())
    if axis is None:
        return None
    made = replace(primitive, axis=axis)

    def run(x: Array, *_: Array) -> Array:
        result: Array = made.reference(x)[0]
        return result

    return run


def _reduce(primitive: Any, known: Sequence[Array | None]) -> Quick | None:
    axes = ints(known[1]) if primitive.reads and known[1] is not None else primitive.axes
    if primitive.function != "sum" or not axes or primitive.spatial:
        return None
    keeps = primitive.keepdims

    def run(x: Array, *_: Array) -> Array:
        if x.dtype.kind not in "iu":
            raise TypeError("only integers are summed so")
        result: Array = np.add.reduce(x, axes, x.dtype, keepdims=keeps)
        return result if type(result) is np.ndarray else np.asarray(result)

    return run


def _gather_nd(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    def run(x: Array, places: Array) -> Array:
        picked: Array = x[tuple([places[..., i] for i in range(places.shape[-1])])]
        return picked

    return run if not primitive.batch else None


def _scatter_nd(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    def run(x: Array, places: Array, updates: Array) -> Array:
        made = x.copy()
        made[tuple(np.moveaxis(places, -1, 0))] = updates
        return made

    return run if primitive.reduction == "none" else None


def _by_reference(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    def run(*arguments: Array) -> Array:
        result: Array = primitive.reference(*arguments)[0]
        return result

    return run


_MAKERS: Mapping[str, Callable[[Any, Sequence[Array | None]], Quick | None]] = {
    "unsqueeze": _unsqueeze,
    "gather": _gather,
    "sequence": _sequence,
    "slice": _slice,
    "reshape": _reshape,
    "expand": _expand,
    "repeat": _repeat,
    "fill": _fill,
    "eltwise": _eltwise,
    "where": _where,
    "shape": _shape_of,
    "reorder": _reorder,
    "concat": _concat,
    "triangle": _triangle,
    "cumulative_sum": _cumulative_sum,
    "reduce": _reduce,
    "gather_nd": _gather_nd,
    "scatter_nd": _scatter_nd,
    "flatten": _by_reference,
    "squeeze": _by_reference,
}
