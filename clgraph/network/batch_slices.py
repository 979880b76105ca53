"""Runs of a program that computes equal parts of its inputs, along the first axis, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.batch_slices import slices_of, whole_shape
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.boundary import Held
from clgraph.network.tensors import empty

RunPart = Callable[[Mapping[str, Held], Mapping[str, Held | None]], Mapping[str, Any]]
"""Runs one part: feeds by name, then the arrays that are to hold the results by name."""


def feeds_of_parts(program: Program, feeds: Mapping[str, Held]) -> Iterator[dict[str, Held]]:
    """Yield the feeds of each part: its entries of those that are cut, without a copy, and the others.

    Raises:
        InputError: A feed is no array, or has another shape than the parts make up.
    """
    for value in program.inputs:
        given, shape = feeds.get(value.name), value.layout.shape
        if given is None or program.batch_slices == 1:
            continue
        if not isinstance(given, np.ndarray):
            raise InputError(
                f"input {value.name!r}, computed in {program.batch_slices} parts, wants an array of the host"
            )
        if given.shape != whole_shape(program, value):
            found = list(given.shape)
            raise InputError(f"input {value.name!r} wants {program.batch_slices} parts of {list(shape)}, not {found}")
    yield from slices_of(program, feeds)


def _part(array: Any, part: int, size: int) -> Array:
    found: Array = array[part * size : (part + 1) * size]
    return found


def in_turn(
    program: Program, feeds: Mapping[str, Held], targets: Mapping[str, Held | None] | None, run: RunPart
) -> dict[str, Array]:
    """Return the results of all parts, each computed by *run* into its place in one array.

    Args:
        targets: The results wanted, with the array for each or ``None``; all of them by default.

    Raises:
        InputError: A feed or a target is no array, or has another shape than the parts make up.
    """
    whole: dict[str, Array] = {}
    copied: dict[str, Array] = {}
    for name, value in program.outputs:
        if targets is not None and name not in targets:
            continue
        target, shape = None if targets is None else targets[name], whole_shape(program, value)
        if target is not None and (not isinstance(target, np.ndarray) or target.shape != shape):
            raise InputError(f"output {name!r}, computed in {program.batch_slices} parts, wants an array {list(shape)}")
        # Written part by part, a target that is also read would change the feeds of later parts.
        if target is not None and any(np.may_share_memory(target, x) for x in feeds.values() if _is_array(x)):
            copied[name], target = target, None
        whole[name] = empty(shape, value.layout.dtype.numpy) if target is None else target
    for part, given in enumerate(feeds_of_parts(program, feeds)):
        places = {name: _part(array, part, len(array) // program.batch_slices) for name, array in whole.items()}
        for name, found in run(given, places).items():
            if found is not places[name]:
                np.copyto(places[name], found)
    for name, target in copied.items():
        np.copyto(target, whole[name])
    return whole | copied


def _is_array(given: Held) -> TypeGuard[Array]:
    return isinstance(given, np.ndarray)
