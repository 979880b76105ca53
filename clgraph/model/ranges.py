"""Shapes with ranges of sizes, as ``Model.prepare`` takes them, and the shapes at their ends."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from clgraph.errors import InputError
from clgraph.graph.topology import Signature

Range = tuple[int, int]
"""The smallest and the largest size of an axis, both included."""
Ranges = Mapping[str, Sequence[int | Range]]
"""Shapes of inputs by name; a dimension is a size or a range."""

MOST_ENDS = 64
"""How many shapes one call prepares."""

Place = tuple[str, int]


def ends(shapes: Mapping[str, Sequence[Any]], signatures: Mapping[str, Signature]) -> list[dict[str, tuple[Any, ...]]]:
    """Return the shapes at the ends of all ranges in *shapes*, the largest last; those without ranges as they are.

    Axes that have the same range change together where their size has the same name in the model, or no name but the
    same place. A range that begins below 2 has its programs for 0 and 1 beside the one for other sizes: these are ends,
    too.

    Raises:
        InputError: A range is none, or there are more than ``MOST_ENDS`` ends.
    """
    groups: dict[tuple[Any, Range], list[Place]] = {}
    for name, shape in shapes.items():
        for axis, size in enumerate(shape):
            if isinstance(size, tuple | list):
                groups.setdefault((_label(signatures, name, axis), _range(name, size)), []).append((name, axis))
    sizes = [sorted({low, high} | {s for s in (0, 1) if low < s < high}) for _, (low, high) in groups]
    if (count := prod(map(len, sizes))) > MOST_ENDS:
        raise InputError(f"{len(groups)} ranges have {count} ends, of at most {MOST_ENDS}: prepare fewer at once")
    found = []
    for chosen in product(*sizes):
        at = {place: size for size, places in zip(chosen, groups.values(), strict=True) for place in places}
        found.append({n: tuple(at.get((n, axis), size) for axis, size in enumerate(s)) for n, s in shapes.items()})
    return found


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
