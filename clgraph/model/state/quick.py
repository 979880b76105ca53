"""Arithmetic of shapes without binding its layers, which costs several times what they compute on a few elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clgraph.core.layout import Shape
from clgraph.graph.attributes import ints, positive_axes, positive_axis
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array

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
        first, last, delta = start.item(), limit.item(), step.item()
        if start.dtype != np.int64 or not all(isinstance(end, int) for end in (first, last, delta)):
            raise TypeError("only ranges of int64 are computed so")
        return np.arange(int(first), int(last), int(delta), dtype=np.int64)

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

    def run(x: Array, shape: Array) -> Array:
        wanted = shape.tolist()
        if keeps and 0 in wanted:
            wanted = [x.shape[i] if d == 0 else d for i, d in enumerate(wanted)]
        return x.reshape(wanted)

    return run if primitive.reads else None


def _expand(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    def run(x: Array, shape: Array) -> Array:
        wanted = shape.tolist()
        more = len(wanted) - x.ndim
        own = [1] * more + list(x.shape)
        wanted = [1] * -more + wanted
        made = np.empty([n if d == 1 else d for d, n in zip(own, wanted, strict=True)], x.dtype)
        if any(n not in (1, d) for d, n in zip(made.shape, wanted, strict=True)):
            raise ValueError("shapes do not broadcast")
        made[...] = x
        return made

    return run if primitive.reads else None


def _fill(primitive: Any, _: Sequence[Array | None]) -> Quick | None:
    dtype = primitive.dtype.numpy

    def run(shape: Array) -> Array:
        return np.full(shape.tolist(), primitive.value, dtype)

    return run if primitive.shape is None else None


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
    "fill": _fill,
    "flatten": _by_reference,
    "squeeze": _by_reference,
}


def quick_shape(layer: Layer) -> Callable[[list[Array]], Shape] | None:
    """Return what tells the shape that *layer* makes of its arguments, ``None`` where nothing here does."""
    primitive: Any = layer.primitive
    if layer.primitive.kind in ("reshape", "squeeze", "unsqueeze", "flatten"):
        return lambda arguments: tuple(primitive.target(arguments[0].shape, arguments))
    if layer.primitive.kind == "gather":
        return lambda arguments: _picked(arguments[0].shape, arguments[1].shape, primitive.axis)
    return None


def _picked(shape: Shape, places: Shape, axis: int) -> Shape:
    axis = positive_axis(axis, len(shape))
    return (*shape[:axis], *places, *shape[axis + 1 :])
