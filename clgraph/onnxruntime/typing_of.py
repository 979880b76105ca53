"""Element types by ONNX's numbers and in its spelling: ``tensor(float)``."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from clgraph.errors import InputError
from clgraph.graph.signature import Signature
from clgraph.onnxruntime.statuses import MismatchError, RefusedError

_NAMES = {code: name.lower() for name, code in TensorProto.DataType.items()}


def element_type(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of a NumPy type; raises ``InputError`` for one that ONNX does not have."""
    if dtype.kind in "OUST":
        return int(TensorProto.STRING)
    try:
        return int(helper.np_dtype_to_tensor_dtype(dtype.newbyteorder("=")))
    except (ValueError, KeyError) as error:
        raise InputError(f"ONNX has no element type {dtype}") from error


def type_of(dtype: np.dtype[Any]) -> str:
    """Return the type of a tensor of a NumPy type; the NumPy type's name where ONNX does not have it."""
    try:
        return f"tensor({_NAMES[element_type(dtype)]})"
    except InputError:
        return f"numpy {dtype}"


def as_dtype(given: Any) -> np.dtype[Any]:
    """Return the NumPy type of numbers that a NumPy type or ONNX's number names.

    Raises:
        RefusedError: It names nothing, texts, or what no tensor of ONNX Runtime holds (a ``RuntimeError``).
    """
    if isinstance(given, int) and (given not in _NAMES or given == TensorProto.UNDEFINED):
        raise RefusedError(f"tensor type {given} is not supported: it is not one of ONNX's")
    try:
        found = np.dtype(helper.tensor_dtype_to_np_dtype(given) if isinstance(given, int) else given)
    except TypeError as error:
        raise RefusedError(f"Not a valid numpy type: {given!r}") from error
    check_numbers(found)
    return found


def check_numbers(dtype: np.dtype[Any]) -> None:
    """Refuse elements that no memory of a caller holds: texts and objects; and those that ONNX Runtime has not.

    Raises:
        RefusedError: They are such (a ``RuntimeError``).
    """
    if dtype.kind in "OSTU":
        raise RefusedError(f"only values of numbers lie in memory of the caller, not of {dtype}")
    if dtype.kind in "cmM" or type_of(dtype).startswith("numpy "):
        raise RefusedError(f"Numpy_type {dtype} can't be converted to MLDataType.")


def sizes_of(shape: Any) -> tuple[int, ...]:
    """Return the sizes of a shape.

    Raises:
        MismatchError: It is not a sequence of whole numbers (a ``TypeError``).
        RefusedError: A size is negative (a ``RuntimeError``).
    """
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        raise MismatchError(f"a shape is a list of whole numbers, not {shape!r}") from error
    if any(size < 0 for size in sizes):
        raise RefusedError(f"a value of shape {list(sizes)}: a size is negative")
    return sizes


def onnx_type(signature: Signature) -> str:
    """Return the type of an input or output; of one whose type the model leaves open, of a tensor of floats."""
    return signature.type or "tensor(float)"


def numpy_type(signature: Signature) -> np.dtype[Any] | None:
    """Return the element type of a tensor; ``None`` where it is no dense tensor, or of no declared type."""
    return None if signature.dtype is None or signature.sparse else signature.dtype.numpy
