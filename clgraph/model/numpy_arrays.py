"""Arrays of other libraries as NumPy arrays: PyTorch's, SciPy's, whatever has ``__array__`` or DLPack, and lists."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.errors import DeviceMemoryError, InputError
from clgraph.graph.primitive import Array
from clgraph.model.torch_tensors import is_bfloat16, is_torch, plain

UNREADABLE = (TypeError, ValueError, BufferError, RuntimeError, AttributeError)
"""What NumPy raises, or passes on from others' objects, where it cannot make an array of something."""


def numpy_array(given: Any, what: str) -> Array:
    """Return *given* as a NumPy array, its own memory where that is possible.

    Raises:
        InputError: NumPy makes no array of it, or only one without its mask; the message calls it *what*.
        DeviceMemoryError: The host has no memory left for it.
    """
    if type(given) is np.ndarray:
        return given
    check_mask(given, what)
    if is_torch(given):
        array = _array_of(plain(given), what)
        return array.view(DType.BF16.numpy) if is_bfloat16(given) else array
    return _array_of(given, what)


def wrong_type(what: str, given: Any, found: Any, wanted: np.dtype[Any] | None) -> str:
    """Return the message for *what* that was *given* as an array of the type *found* where *wanted* is required."""
    if wanted is None:
        return f"{what} is {found}; the model requires an undeclared type"
    told = f"; the model requires {wanted.name}"
    if found == np.dtype(object):
        if hasattr(given, "to_numpy"):  # a table of pandas's own types, or with columns of different ones
            return f"{what} is a {type(given).__name__} of objects{told}: .to_numpy({wanted.name!r}) converts it"
        return f"{what} is {'an array of objects' if hasattr(given, 'dtype') else f'a {type(given).__name__}'}{told}"
    if is_torch(given) and hasattr(sys.modules.get("torch"), wanted.name):
        return f"{what} is {found}{told}: .to(torch.{wanted.name}) converts it"
    is_number = isinstance(found, np.dtype) and found.kind in "biuf"
    return f"{what} is {found}{told}" + f": .astype({wanted.name!r}) converts it" * is_number


def check_mask(given: Any, what: str) -> None:
    """Raise ``InputError`` where *given* is a masked array."""
    if isinstance(given, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array; models take no masks: fill it first, by .filled(value)")


def _array_of(given: Any, what: str) -> Array:
    try:
        if hasattr(given, "__array__"):
            return np.asarray(given)
        if hasattr(given, "__dlpack__"):
            return np.from_dlpack(given)
        return np.asarray(given.toarray() if hasattr(given, "toarray") else given)
    except MemoryError as error:
        raise DeviceMemoryError(f"the host has no memory left for {what}") from error
    except UNREADABLE as error:
        raise InputError(
            f"{what} is a {type(given).__name__}, which NumPy cannot convert to an array: {error}"
        ) from error


def given_as(array: Array, dtype: Any = None, copy: bool | None = None) -> Array:
    """Return *array* as ``__array__`` is to give it; NumPy before 2 knows no *copy* of ``None``.

    Raises:
        ValueError: *copy* is ``False`` and *dtype* another one.
    """
    given = array.astype(array.dtype if dtype is None else dtype, copy=copy is True)
    if copy is False and given is not array:
        raise ValueError(f"the array is {array.dtype}: as {given.dtype} a copy cannot be avoided")
    return given
