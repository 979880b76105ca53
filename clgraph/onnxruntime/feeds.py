"""Feeds as ONNX Runtime takes them: what it casts, and what it refuses in the words that programs look for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.topology import Signature
from clgraph.onnxruntime.statuses import InvalidArgument, MismatchError, RefusedError
from clgraph.onnxruntime.typing_of import numpy_type, onnx_type, type_of
from clgraph.onnxruntime.values import OrtValue


def taken(
    feeds: Mapping[str, Any], inputs: Sequence[Signature], overridable: Sequence[Signature] = ()
) -> dict[str, Any]:
    """Return *feeds* as :meth:`clgraph.Model.run` takes them.

    Raises:
        InputError: An input is missing (a ``ValueError``, as ONNX Runtime's).
        InvalidArgument: A name is unknown, or a feed has another element type, number of axes or size.
        RefusedError: A feed is nothing that an array can be made of (a ``RuntimeError``, as ONNX Runtime's).
    """
    if not isinstance(feeds, Mapping):
        raise MismatchError(f"feeds are a dictionary by name, not {type(feeds).__name__}")
    signatures = {s.name: s for s in (*inputs, *overridable)}
    missing = [s.name for s in inputs if s.name not in feeds and not onnx_type(s).startswith("optional")]
    if missing:
        raise InputError(f"Required inputs ({missing}) are missing from input feed ({list(feeds)}).")
    found: dict[str, Any] = {s.name: None for s in inputs if onnx_type(s).startswith("optional")}
    for name, given in feeds.items():
        if name not in signatures:
            raise InvalidArgument(f"Invalid input name: {name}")
        value = given.value if isinstance(given, OrtValue) else given
        if value is not None:
            found[name] = _taken(value, signatures[name])
    return found


def _taken(given: Any, signature: Signature) -> Any:
    wanted = numpy_type(signature)
    if wanted is None:
        return given
    array = given if type(given) is np.ndarray else _array(given, wanted, signature.name)
    if wanted not in (array.dtype, array.dtype.newbyteorder("=")) and not (
        wanted.kind == "O" and array.dtype.kind in "US"
    ):
        actual, expected = type_of(array.dtype), onnx_type(signature)
        raise InvalidArgument(f"Unexpected input data type. Actual: ({actual}) , expected: ({expected})")
    return array if signature.shape is None else _fitted(array, signature.name, signature.shape)


def _array(given: Any, wanted: np.dtype[Any], name: str) -> np.ndarray[Any, Any]:
    """Return lists and numbers in the input's type, rounded or cut off as ONNX Runtime's lists are."""
    if isinstance(given, str | bytes) and wanted.kind != "O":
        raise RefusedError(f"input {name!r} is a text; wanted is an array of {wanted}")
    try:
        if isinstance(given, list | tuple | bool | int | float | str):
            return np.asarray(given, wanted)
        if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
            return np.from_dlpack(given)
        array = np.asarray(given)
    except (TypeError, ValueError, OverflowError, RuntimeError, BufferError) as error:
        raise RefusedError(
            f"input {name!r} is a {type(given).__name__}, not to be made an array of: {error}"
        ) from error
    if array.dtype == object and wanted.kind != "O":
        raise RefusedError(f"Unable to handle object of type {type(given)} as input {name!r}")
    return array


def _fitted(array: np.ndarray[Any, Any], name: str, shape: Sequence[int | str | None]) -> np.ndarray[Any, Any]:
    """Return *array* in the declared *shape*: a number may come as an array of one element."""
    if len(array.shape) != len(shape):
        if not shape and array.size == 1:
            return array.reshape(())
        raise InvalidArgument(f"Invalid rank for input: {name} Got: {array.ndim} Expected: {len(shape)}")
    wrong = [
        f" index: {axis} Got: {got} Expected: {wanted}"
        for axis, (got, wanted) in enumerate(zip(array.shape, shape, strict=True))
        if isinstance(wanted, int) and got != wanted
    ]
    if wrong:
        lines = "\n".join(wrong)
        raise InvalidArgument(f"Got invalid dimensions for input: {name} for the following indices\n{lines}")
    return array
