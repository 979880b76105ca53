"""Shapes with ranges of sizes, as ``Model.prepare`` takes them, and the shapes at their ends."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from clgraph.core.layout import Shape
from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.graph.shapes_by_name import by_name
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology

Range = tuple[int, int]
"""The smallest and the largest size of an axis, both included."""
Ranges = Mapping[str, Sequence[int | Range]]
"""Shapes of inputs by name; a dimension is a size or a range."""

MOST_ENDS = 64
"""How many shapes one call prepares."""

STEPS = 64
"""Sizes that are tried between the ends, for a picture that is neither small nor large."""

Place = tuple[str, int]


def asked(
    topology: Topology, shapes: Ranges | None, values: Mapping[str, Any] | None
) -> tuple[dict[str, Array], list[dict[str, Shape]]]:
    """Return *values* as arrays of the inputs' types, and the shapes of all tensors at the ends of the ranges.

    Args:
        values: What inputs will hold, whose shapes *shapes* need not have.

    Raises:
        InputError: A name is not an input's, a shape does not fit or leaves a size open, or a range is none.
    """
    known = {name: np.asarray(value) for name, value in (values or {}).items()}
    given = {name: array.shape for name, array in known.items()} | by_name(shapes)
    inputs = topology.inputs
    if unknown := sorted(set(given) - set(inputs)):
        listed = ", ".join(map(repr, inputs)) or "none"
        raise InputError(f"no input is called {unknown[0]!r}; the inputs are {listed}")
    for name, array in known.items():
        dtype = inputs[name].dtype
        known[name] = array if dtype is None else array.astype(dtype.numpy)
    tensors = [name for name, s in inputs.items() if not s.host_type]
    return known, [{name: topology.shape_of(name, each) for name in tensors} for each in ends(given, inputs)]


def ends(shapes: Mapping[str, Sequence[Any]], signatures: Mapping[str, Signature]) -> list[dict[str, tuple[Any, ...]]]:
    """Return the shapes at the ends of all ranges in *shapes*, the largest last; those without ranges as they are.

    Axes that have the same range change together where their size has the same name in the model, or no name but the
    same place. A range that begins below 2 has its programs for 0 and 1 beside the one for other sizes: these are ends,
    too, and so is 2 of batches of pictures, because few small ones have other kernels than many. Single pictures that
    are neither small nor large have a family of their own: one is added where no end is such a picture.

    Raises:
        InputError: A range is none, or there are more than ``MOST_ENDS`` ends.
    """
    groups: dict[tuple[Any, Range], list[Place]] = {}
    for name, shape in shapes.items():
        for axis, size in enumerate(shape):
            if isinstance(size, tuple | list):
                groups.setdefault((_label(signatures, name, axis), _range(name, size)), []).append((name, axis))
    pictures = [name for name, shape in shapes.items() if sum(isinstance(d, tuple | list) for d in shape[1:]) > 1]
    sizes = []
    for (_, (low, high)), places in groups.items():
        apart = (0, 1, 2) if any((name, 0) in places for name in pictures) else (0, 1)
        sizes.append(sorted({low, high} | {s for s in apart if low < s < high}))
    if (count := prod(map(len, sizes))) > MOST_ENDS:
        raise InputError(f"{len(groups)} ranges have {count} ends, of at most {MOST_ENDS}: prepare fewer at once")
    found = [_at(chosen, groups, shapes) for chosen in product(*sizes)]
    return [*_medium(groups, shapes, pictures, found), *found]


def _at(
    chosen: Iterable[int], groups: Mapping[Any, Sequence[Place]], shapes: Mapping[str, Sequence[Any]]
) -> dict[str, tuple[Any, ...]]:
    """Return *shapes* with the size that is *chosen* for each group in its places."""
    at = {place: size for size, places in zip(chosen, groups.values(), strict=True) for place in places}
    return {n: tuple(at.get((n, axis), size) for axis, size in enumerate(s)) for n, s in shapes.items()}


def _medium(
    groups: Mapping[tuple[Any, Range], Sequence[Place]],
    shapes: Mapping[str, Sequence[Any]],
    pictures: Sequence[str],
    found: Sequence[Mapping[str, tuple[Any, ...]]],
) -> list[dict[str, tuple[Any, ...]]]:
    """Return shapes of a single medium picture, between the least and the largest; none if *found* has one."""
    if not pictures:
        return []
    from clgraph.families.schema import MEDIUM_PIXELS, SMALL_PIXELS

    free = {name: [a for a, d in enumerate(shapes[name]) if a and isinstance(d, tuple | list)] for name in pictures}

    def is_medium(at: Mapping[str, tuple[Any, ...]]) -> bool:
        most = max((prod(at[n][a] for a in axes) for n, axes in free.items() if at[n][0] == 1), default=0)
        return SMALL_PIXELS < most <= MEDIUM_PIXELS

    if any(map(is_medium, found)):
        return []
    for step in range(STEPS):
        sizes = [max(low, 1) * (high / max(low, 1)) ** (step / STEPS) for _, (low, high) in groups]
        chosen = [1 if any(not a for _, a in p) else int(n) for n, p in zip(sizes, groups.values(), strict=True)]
        if is_medium(at := _at(chosen, groups, shapes)) and _within(chosen, groups):
            return [at]
    return []


def _within(chosen: Sequence[int], groups: Mapping[tuple[Any, Range], Sequence[Place]]) -> bool:
    return all(low <= size <= high for size, (_, (low, high)) in zip(chosen, groups, strict=True))


def _range(name: str, given: Sequence[Any]) -> Range:
    try:
        low, high = (operator.index(size) for size in given)
    except (TypeError, ValueError) as error:
        raise InputError(f"input {name!r}: a range is its smallest and largest size, not {given!r}") from error
    if not 0 <= low <= high:
        raise InputError(f"input {name!r}: a range is its smallest and largest size, 0 or more, not {given!r}")
    return low, high


def _label(signatures: Mapping[str, Signature], name: str, axis: int) -> object:
    """Return what the size of an axis is called, or its place where it is not."""
    shape = signatures[name].shape
    declared = shape[axis] if shape is not None and axis < len(shape) else None
    return declared if isinstance(declared, str) else axis
