"""Conversion of values of a staged run: to arrays for models, to copies for the caller."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from clgraph.model.tensor import Tensor

_HELD = {"": np.empty(0)}
_ALONE = sys.getrefcount(_HELD[""])
"""How often an array is referred to that only a dictionary holds, the question included."""


def _named() -> int:
    held = _HELD[""]
    return sys.getrefcount(held)


_NAMED = _named()
"""The same where a variable has it as well, which not every version of Python counts alike."""


_SEEN = np.empty(2).reshape(1, 2)
_BEHIND = sys.getrefcount(_SEEN.base)
"""How often an array is referred to that only a view has, the question included."""


def nobody_elses(values: Mapping[str, Any], name: str) -> bool:
    """Whether *name* is a writeable array that *values* alone refers to, and so is all of its memory.

    It owns the memory, or is the whole of an array that does and that nothing else refers to: a result that was
    given its shape last.
    """
    if sys.getrefcount(values[name]) != _ALONE or type(values[name]) is not np.ndarray:
        return False
    flags = values[name].flags
    if flags.owndata or not flags.writeable:
        return bool(flags.owndata and flags.writeable)
    if sys.getrefcount(values[name].base) != _BEHIND or type(values[name].base) is not np.ndarray:
        return False
    return bool(values[name].base.flags.owndata and values[name].base.nbytes == values[name].nbytes)


def maps_of_a_run(values: Mapping[str, Any], name: str) -> list[Any] | None:
    """Return the elements of the sequence *name* where all are maps, and nobody has them or it but *values*."""
    value = values[name]
    if type(value) is not tuple or sys.getrefcount(value) != _NAMED:
        return None
    for element in value:
        if type(element) is not dict or sys.getrefcount(element) != _NAMED:
            return None
    return list(value)


def handed_out(value: Any) -> Any:
    """Return a copy of a value of a run as the caller gets it: a sequence as a list."""
    if isinstance(value, tuple):
        return [element.copy() if type(element) is dict else handed_out(element) for element in value]
    if isinstance(value, dict):
        return dict(value)
    return None if value is None else np.array(array_of(value))


def array_of(value: Any) -> Any:
    """Return the array of a tensor; return any other value, such as a sequence of arrays, unchanged."""
    return value.numpy() if isinstance(value, Tensor) else value
