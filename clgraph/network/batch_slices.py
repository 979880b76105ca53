"""Runs of a program that computes its batch in slices, equal ones of the first axis, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.batch_slices import slices_of, whole_shape
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.feed import Held
from clgraph.network.result_memory import NewArray

RunSlice = Callable[[Mapping[str, Held], Mapping[str, Held | None]], Mapping[str, Any]]
"""Runs one slice: feeds by name, then the arrays that are to hold the results by name."""


def feeds_of_slices(program: Program, feeds: Mapping[str, Held]) -> Iterator[dict[str, Held]]:
    """Yield the feeds of each batch slice: its entries of those that are cut, without a copy, and the others.

    Raises:
        InputError: A feed is not an array, or has another shape than the slices make up.
    """
    for value in program.inputs:
        given, shape = feeds.get(value.name), value.layout.shape
        if given is None or program.batch_slices == 1:
            continue
        if not isinstance(given, np.ndarray):
            raise InputError(
                f"input {value.name!r}, computed in {program.batch_slices} batch slices, requires an array of the host"
            )
        if given.shape != whole_shape(program, value):
            wanted = f"{program.batch_slices} batch slices of {list(shape)}"
            raise InputError(f"input {value.name!r} requires {wanted}, not {list(given.shape)}")
    yield from slices_of(program, feeds)


def _slice(array: Any, number: int, size: int) -> Array:
    found: Array = array[number * size : (number + 1) * size]
    return found


def in_turn(
    program: Program,
    feeds: Mapping[str, Held],
    targets: Mapping[str, Held | None] | None,
    run: RunSlice,
    empty: NewArray,
) -> dict[str, Array]:
    """Return the results of all batch slices, each computed by *run* into its place in one array.

    Args:
        targets: The results wanted, with the array for each or ``None``; all of them by default.
        empty: Returns a new array of a shape, an element type and so many bytes.

    Raises:
        InputError: A feed or a target is not an array, or has another shape than the slices make up.
    """
    whole: dict[str, Array] = {}
    copied: dict[str, Array] = {}
    for name, value in program.outputs:
        if targets is not None and name not in targets:
            continue
        target, shape = None if targets is None else targets[name], whole_shape(program, value)
        if target is not None and (not isinstance(target, np.ndarray) or target.shape != shape):
            raise InputError(
                f"output {name!r}, computed in {program.batch_slices} batch slices, requires an array {list(shape)}"
            )
        # Written slice by slice, a target that is also read would change the feeds of later slices.
        if target is not None and any(np.may_share_memory(target, x) for x in feeds.values() if _is_array(x)):
            copied[name], target = target, None
        nbytes = value.layout.nbytes * program.batch_slices
        whole[name] = empty(shape, value.layout.dtype.numpy, nbytes) if target is None else target
    for number, given in enumerate(feeds_of_slices(program, feeds)):
        places = {name: _slice(array, number, len(array) // program.batch_slices) for name, array in whole.items()}
        for name, found in run(given, places).items():
            if found is not places[name]:
                np.copyto(places[name], found)
    for name, target in copied.items():
        np.copyto(target, whole[name])
    return whole | copied


def _is_array(given: Held) -> TypeGuard[Array]:
    return isinstance(given, np.ndarray)
