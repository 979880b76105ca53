"""Shapes of what layers make of arrays, which are told without making it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from clgraph.core.layout import Shape
from clgraph.graph.attributes import positive_axis
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.model.state.quick import quick
from clgraph.ops.eltwise import ARITHMETIC


def quick_shape(layer: Layer, constants: Mapping[str, Array]) -> Callable[[Sequence[Array]], Shape] | None:
    """Return what tells the shape that *layer* makes of its arguments, ``None`` where nothing here does.

    The results have the type of the first argument. It raises any error where arguments do not fit.
    """
    primitive: Any = layer.primitive
    kind = layer.primitive.kind
    if kind == "reshape":
        return lambda arguments: _reshaped(primitive, arguments)
    if kind == "unsqueeze" and (view := quick(layer, constants)) is not None:
        return lambda arguments: view(*arguments).shape
    if kind in ("squeeze", "unsqueeze", "flatten"):
        return lambda arguments: tuple(primitive.target(arguments[0].shape, arguments))
    if kind == "gather":
        return lambda arguments: _picked(arguments[0].shape, arguments[1].shape, primitive.axis)
    if kind == "eltwise" and primitive.function in ARITHMETIC:
        return lambda arguments: np.broadcast(*arguments).shape
    if kind == "transpose" and primitive.axes is not None:
        return lambda arguments: tuple([arguments[0].shape[i] for i in primitive.axes])
    if kind == "expand" and primitive.reads:
        return lambda arguments: np.broadcast_shapes(arguments[0].shape, tuple(arguments[1].tolist()))
    return None


def _reshaped(primitive: Any, arguments: Sequence[Array]) -> Shape:
    shape = arguments[0].shape
    wanted = arguments[1].tolist() if primitive.reads else list(primitive.shape)
    if not primitive.zero_is_zero and 0 in wanted:
        wanted = [shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    if -1 in wanted:
        wanted[wanted.index(-1)] = prod(shape) // -prod(wanted)
    if prod(wanted) != prod(shape) or min(wanted, default=0) < 0:
        raise ValueError("shapes hold other numbers of elements")
    return tuple(wanted)


def _picked(shape: Shape, places: Shape, axis: int) -> Shape:
    axis = positive_axis(axis, len(shape))
    return (*shape[:axis], *places, *shape[axis + 1 :])
