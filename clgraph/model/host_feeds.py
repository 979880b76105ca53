"""Feeds that are no tensors of numbers, checked against their types and put into the form that a run has them in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.host_types import STRINGS, inside, is_container, numpy_type
from clgraph.graph.primitive import Array
from clgraph.handlers import pass_on
from clgraph.model.numpy_arrays import wrong_type
from clgraph.model.tensor import host_array

_SCALARS: Mapping[str, tuple[type | tuple[type, ...], Callable[[Any], Any]]] = {
    "string": (str, str),
    "int64": ((int, np.integer), int),
    "float": ((int, float, np.integer, np.floating), float),
    "double": ((int, float, np.integer, np.floating), float),
}
"""What the keys and elements of maps are given as, by their names in types."""

_TEXTS = {str}

_FEW = 1 << 12
"""Objects up to which the memory of all texts once more does not count."""


def take(given: Any, spelled: str, what: str) -> Any:
    """Return *given* as a run has values of the type *spelled* (:mod:`clgraph.graph.host_types`).

    Args:
        given: A list or tuple for a sequence, ``None`` or the element for an optional, a mapping for a map.

    Raises:
        InputError: It is of another type; the message calls it *what*.
    """
    if spelled == STRINGS:
        return strings(given, what)
    if is_container(spelled, "tensor"):
        return _tensor(given, spelled, what)
    if is_container(spelled, "optional"):
        return None if given is None else take(given, inside(spelled), what)
    if is_container(spelled, "seq"):
        if not isinstance(given, list | tuple):
            raise InputError(f"{what} is {spelled}: give it as a list, not as {_described(given)}")
        return tuple(take(each, inside(spelled), f"element {i} of {what}") for i, each in enumerate(given))
    if not isinstance(given, Mapping):
        raise InputError(f"{what} is {spelled}: give it as a dictionary, not as {_described(given)}")
    key, _, value = inside(spelled).partition(",")
    return {_scalar(k, key, what, spelled): _scalar(v, inside(value), what, spelled) for k, v in given.items()}


def strings(given: Any, what: str) -> Array:
    """Return texts as an array of ``str``; raises ``InputError``, which calls them *what*, where there are others."""
    array = np.asarray(given, None if isinstance(given, np.ndarray) else object)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind in ("U", "T"):
        return array.astype(object)
    kinds: set[Any] = {array.dtype}
    if array.dtype == object:
        items = array.ravel().tolist()
        if len(items) <= _FEW and _are_texts(items):
            return array
        kinds = {*map(type, items)}
        if kinds == _TEXTS:
            return array
    found = next((kind for kind in kinds if not isinstance(kind, type) or not issubclass(kind, str)), str)
    if found is not str:
        name = found.__name__ if isinstance(found, type) else found
        raise InputError(f"{what} is {STRINGS}: give it as an array of str, not of {name}")
    return array


def _are_texts(items: list[Any]) -> bool:
    """Whether all of a few objects are ``str``: to join them tells in a quarter of the time their types do."""
    try:
        "".join(items)
    except TypeError as error:
        pass_on(error)
        return False
    return True


def _tensor(given: Any, spelled: str, what: str) -> Array:
    array, wanted = host_array(given, what), numpy_type(spelled)
    if array.dtype.newbyteorder("=") != wanted:
        raise InputError(wrong_type(what, given, array.dtype, wanted))
    return array.astype(wanted, copy=False)


def _scalar(given: Any, name: str, what: str, spelled: str) -> Any:
    accepted, convert = _SCALARS.get(name, ((), str))
    if isinstance(given, np.ndarray) and given.ndim == 0:
        given = given.item()
    if not isinstance(given, accepted) or isinstance(given, bool):
        raise InputError(f"{what} is {spelled}, and holds {given!r:.60} ({type(given).__name__})")
    return convert(given)


def _described(given: Any) -> str:
    return f"an array {list(given.shape)}" if isinstance(given, np.ndarray) else f"a {type(given).__name__}"
