"""Masks that say which tokens have chosen an expert: those of their best places equal to one number, or their one-hot.

The best places are a TopK's, or ArgMaxes' of which each reads the scores without those that others have found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array

_ROW, _PLACE, _EXPERT = range(3)


def place_axis(constants: Mapping[str, Array], makers: Mapping[str, Layer], finder: Layer) -> int | None:
    """Return the axis of the mask of two that *finder*, a NonZero, reads along which at most one element is not zero.

    ``None`` where it is no such mask. The places that TopK finds for a token are different ones, so that one of them at
    most is a certain expert.
    """
    if finder.primitive.kind != "non_zero":
        return None
    moves = list[Layer]()
    layer = makers.get(finder.inputs[0])
    while layer is not None and layer.primitive.kind in ("reorder", "gather", "transpose"):
        if layer.primitive.kind != "reorder":
            moves.append(layer)
        layer = makers.get(layer.inputs[0])
    if layer is None:
        return None
    if _is_one_expert(constants, makers, layer):
        axes = [_ROW, _PLACE]
    elif _is_one_hot(constants, makers, layer):
        axes = [_ROW, _PLACE, _EXPERT]
    else:
        return None
    turned = False
    for move in reversed(moves):
        primitive: Any = move.primitive
        if move.primitive.kind == "transpose":
            if primitive.axes is None or sorted(primitive.axes) != list(range(len(axes))):
                return None
            axes, turned = [axes[i] for i in primitive.axes], True
        else:
            place = constants.get(move.inputs[1])
            if place is None or place.ndim or not turned or axes[primitive.axis] != _EXPERT:
                return None
            del axes[primitive.axis]
    return axes.index(_PLACE) if sorted(axes) == [_ROW, _PLACE] else None


@frozen
class ChosenExpert:
    """Whose rows a mask finds: the number of an expert, and the *places* of the best *scores* that have it."""

    places: str
    number: int
    scores: str


def chosen_expert(constants: Mapping[str, Array], makers: Mapping[str, Layer], finder: Layer) -> ChosenExpert | None:
    """Return which expert's rows *finder* finds, for which :func:`place_axis` knows an axis; ``None`` if unknown."""
    number, layer = None, makers.get(finder.inputs[0])
    while layer is not None and layer.primitive.kind in ("reorder", "gather", "transpose"):
        if layer.primitive.kind == "gather":
            number = int(constants[layer.inputs[1]])
        layer = makers.get(layer.inputs[0])
    if layer is None:
        return None
    name, numbers = layer.inputs[0], None
    if layer.primitive.kind == "eltwise":
        name, numbers = next(
            ((a, constants[b]) for a, b in (layer.inputs, layer.inputs[::-1]) if b in constants), ("", None)
        )
        if numbers is None:
            return None
        number = int(numbers.ravel()[number or 0])
    while (made := makers.get(name)) is not None and made.primitive.kind in ("reorder", "unsqueeze"):
        name = made.inputs[0]
    scores = _scores(constants, makers, name)
    return None if number is None or number < 0 or scores is None else ChosenExpert(name, number, scores)


def _is_one_expert(constants: Mapping[str, Array], makers: Mapping[str, Layer], layer: Layer) -> bool:
    """Whether *layer* compares the places ``[rows, k]`` of the *k* largest with one number."""
    primitive: Any = layer.primitive
    if primitive.kind != "eltwise" or primitive.function != "equal":
        return False
    for places, other in (layer.inputs, layer.inputs[::-1]):
        number = constants.get(other)
        if number is not None and number.size == 1 and number.ndim <= 2 and _is_top(constants, makers, places):
            return True
    return False


def _is_one_hot(constants: Mapping[str, Array], makers: Mapping[str, Layer], layer: Layer) -> bool:
    """Whether *layer* makes ``[rows, k, experts]`` of the places ``[rows, k]`` of the *k* largest."""
    primitive: Any = layer.primitive
    if primitive.kind == "one_hot":
        values = constants.get(layer.inputs[2])
        codes = primitive.axis in (-1, 2) and values is not None and np.array_equal(values, [0, 1])
        return codes and _is_top(constants, makers, layer.inputs[0])
    if primitive.kind == "eltwise" and primitive.function == "equal":
        for one, other in (layer.inputs, layer.inputs[::-1]):
            numbers, wide = constants.get(other), makers.get(one)
            if numbers is None or wide is None or wide.primitive.kind != "unsqueeze":
                continue
            axes = constants.get(wide.inputs[1]) if len(wide.inputs) > 1 else getattr(wide.primitive, "axes", None)
            if axes is None or np.ravel(axes).tolist() not in ([-1], [2]) or len(np.unique(numbers)) != numbers.size:
                continue
            return numbers.ndim == 1 and _is_top(constants, makers, wide.inputs[0])
    return False


def _is_top(constants: Mapping[str, Array], makers: Mapping[str, Layer], name: str) -> bool:
    """Whether *name* are different places for each row of two axes: those of the largest along the last."""
    layer = makers.get(name)
    while layer is not None and layer.primitive.kind == "reorder":
        name, layer = layer.inputs[0], makers.get(layer.inputs[0])
    return _scores(constants, makers, name) is not None


def _scores(constants: Mapping[str, Array], makers: Mapping[str, Layer], name: str) -> str | None:
    """Return the scores of which *name* are the places of the largest; ``None`` where they are none."""
    layer = makers.get(name)
    if layer is None:
        return None
    primitive: Any = layer.primitive
    if primitive.kind == "top_k" and name in layer.outputs[1:]:
        return layer.inputs[0] if primitive.axis in (-1, 1) else None
    if primitive.kind != "concat" or primitive.axis not in (-1, 1):
        return None
    scores: str | None = None
    for i, place in enumerate(layer.inputs):
        best = makers.get(place)
        if best is None or not _is_best(best):
            return None
        if i == 0:
            scores = best.inputs[0]
        elif _without(constants, makers, best.inputs[0], layer.inputs[:i]) != scores:
            return None
    return scores


def _is_best(layer: Layer) -> bool:
    primitive: Any = layer.primitive
    return primitive.kind == "arg" and primitive.axis in (-1, 1) and primitive.keepdims and not primitive.smallest


def _without(
    constants: Mapping[str, Array], makers: Mapping[str, Layer], name: str, places: Sequence[str]
) -> str | None:
    """Return of which scores *name* are those whose *places* have minus infinity."""
    for place in reversed(places):
        layer = makers.get(name)
        if layer is None or layer.primitive.kind != "scatter_elements" or layer.inputs[1] != place:
            return None
        primitive: Any = layer.primitive
        filled, value = makers.get(layer.inputs[2]), constants.get(layer.inputs[2])
        if filled is not None and filled.primitive.kind == "expand":
            value = constants.get(filled.inputs[0])
        if primitive.axis not in (-1, 1) or primitive.reduction != "none" or value is None or np.any(value != -np.inf):
            return None
        name = layer.inputs[0]
    return name
