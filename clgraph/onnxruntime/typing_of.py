"""Element types by ONNX's numbers and in its spelling: ``tensor(float)``."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from clgraph.errors import InputError
from clgraph.graph.signature import Signature
from clgraph.onnxruntime.statuses import RefusedError

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
    """Return the NumPy type of a NumPy type or of ONNX's number; raises ``RefusedError`` for another number."""
    if isinstance(given, int) and given not in _NAMES:
        raise RefusedError(f"tensor type {given} is not supported: it is not one of ONNX's")
    return np.dtype(helper.tensor_dtype_to_np_dtype(given) if isinstance(given, int) else given)


def onnx_type(signature: Signature) -> str:
    """Return the type of an input or output; of one whose type the model leaves open, of a tensor of floats."""
    return signature.type or "tensor(float)"


def numpy_type(signature: Signature) -> np.dtype[Any] | None:
    """Return the element type of a tensor; ``None`` where it is no dense tensor, or of no declared type."""
    return None if signature.dtype is None or signature.sparse else signature.dtype.numpy
