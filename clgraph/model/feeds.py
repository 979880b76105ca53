"""Conversion of the arguments of a run (by name, position or keyword; arrays, lists, numbers) to arrays by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clgraph.core.dtype import NARROW
from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.model.tensor import Tensor, host_array
from clgraph.model.torch_tensors import is_torch, to_torch
from clgraph.runtime.callers_buffer import is_array

_LITERALS = (bool, int, float, list, tuple, range, np.generic)
_NUMBERS = "biuf"
"""NumPy's kinds of element types that numbers are cast among."""


def names(wanted: Iterable[tuple[str, Any]]) -> str:
    """Return the clause of an error message that lists the input names."""
    return f"the inputs are {', '.join(repr(name) for name, _ in wanted) or 'none'}"


def arranged(given: Sequence[Any], named: Mapping[str, Any], wanted: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
    """Return feeds by name.

    Args:
        given: One dictionary by name; or arrays in the order of the inputs, as one sequence where there are several
            inputs, ``None`` for none. A sequence for the only input is its value.
        named: Further feeds, by keyword.

    Raises:
        InputError: There are more arrays than inputs, one is given twice, or the outputs stand first.
    """
    if len(given) > 1 and isinstance(given[-1], Mapping) and given[-1].keys() & {name for name, _ in wanted}:
        raise InputError(
            "feeds come first, the names of outputs behind them; a program that is written for ONNX Runtime runs "
            "unchanged by python -m clgraph.as_onnxruntime"
        )
    by_name: Mapping[str, Any]
    if len(given) == 1 and isinstance(given[0], dict | Mapping):
        by_name = given[0]
    else:
        several = len(given) == 1 and len(wanted) > 1 and isinstance(given[0], list | tuple)
        arrays = given[0] if several else given
        if len(arrays) > len(wanted):
            raise InputError(f"{len(arrays)} arrays were given; {names(wanted)}")
        by_name = {name: array for (name, _), array in zip(wanted, arrays, strict=False) if array is not None}
    if not named:
        return by_name
    if twice := sorted(by_name.keys() & named.keys()):
        raise InputError(f"input {twice[0]!r} is given twice")
    return {**by_name, **named}


def literal(given: Any, dtype: np.dtype[Any], what: str) -> Array:
    """Return numbers of Python, nested lists of them or NumPy's as an array of *dtype*.

    Only floating-point numbers are rounded, but to float4, which has no NaN for those that it cannot hold. What cannot
    become *dtype* at all stays as it is.

    Raises:
        InputError: They are no array, or one of them is lost in *dtype*; the message calls them *what*.
    """
    array = host_array(given, what)
    # NumPy keeps whole numbers of more than 64 bits as objects.
    number = array.dtype.kind in _NUMBERS or (array.size > 0 and all(type(n) is int for n in array.flat))
    if array.dtype == dtype or not number or not (dtype.kind in _NUMBERS or dtype.name in NARROW):
        return array
    try:
        with np.errstate(all="ignore"):
            cast = array.astype(dtype)
    except OverflowError as error:
        raise InputError(f"{what} holds integers that {dtype.name} cannot hold") from error
    if array.dtype.kind == "f" and "float" in dtype.name and dtype.name != "float4_e2m1fn":
        lost = ~np.isfinite(cast) & np.isfinite(array)  # types without infinity have NaN in its place
    else:
        # Python compares whole numbers and fractions exactly, NumPy rounds one of them first.
        pairs = zip(cast.ravel().tolist(), array.ravel().tolist(), strict=True)
        lost = np.array([new != old for new, old in pairs], bool)
    if lost.any():
        raise InputError(f"{what} holds {array.ravel()[lost.ravel()][0]}, which {dtype.name} cannot hold")
    return cast


def is_literal(given: Any) -> bool:
    """Whether *given* has no element type of its own that a caller has chosen: a number, or a list."""
    return isinstance(given, _LITERALS)


def foreign_places(outputs: Any) -> dict[str, Any]:
    """Return the arrays of other libraries (torch's tensors, pyopencl's) among those that are to hold results."""
    if not isinstance(outputs, Mapping):
        return {}
    return {
        name: place
        for name, place in outputs.items()
        if not isinstance(place, np.ndarray | Tensor) and (hasattr(place, "__dlpack__") or is_array(place))
    }


def shared_places(foreign: Mapping[str, Any]) -> dict[str, Array | Tensor]:
    """Return the memory of *foreign* arrays as NumPy arrays; raises ``InputError`` for one that is not accessible."""
    return {
        name: Tensor.from_buffer(place) if is_array(place) else _shared_array(place, f"what is to hold output {name!r}")
        for name, place in foreign.items()
    }


def as_given(results: Any, feeds: Mapping[str, Any]) -> Any:
    """Return an array, or a tuple of them, as torch's tensors where all *feeds* are such, else as it is."""
    if not feeds or not all(map(is_torch, feeds.values())):
        return results
    return tuple(map(to_torch, results)) if isinstance(results, tuple) else to_torch(results)


def _shared_array(given: Any, what: str) -> Array:
    """Return the memory of an array of another library as a NumPy array that may be written to.

    Raises:
        InputError: NumPy gets a copy only, or none; the message calls it *what*.
    """
    array = host_array(given, what)
    if array.size and not np.may_share_memory(array, host_array(given, what)):
        raise InputError(f"{what} is a {type(given).__name__}, whose memory NumPy cannot share: give an array")
    return array
