"""Types of values that are no tensors of numbers, and so stay on the host: strings, sequences, optionals, maps.

They are spelled as ONNX does: ``tensor(string)``, ``seq(tensor(float))``, ``optional(seq(tensor(int64)))``,
``map(int64,tensor(float))``. In a run strings are an array of Python's ``str`` (dtype object), a sequence is a tuple,
an optional is its element or ``None``, a map is a dictionary of scalars.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout

STRINGS = "tensor(string)"
"""The type of a tensor of strings."""

_NAMES = {"float32": "float", "float64": "double", "float8_e8m0fnu": "float8e8m0", "float4_e2m1fn": "float4e2m1"}
_NAMES |= {
    name: name.replace("_", "") for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
}
_TWINS = {name: twin for twin, name in _NAMES.items()}


def tensor_type(dtype: DType) -> str:
    """Return the type of a tensor of *dtype*, as ``tensor(float)``."""
    return f"tensor({_NAMES.get(dtype.numpy.name, dtype.numpy.name)})"


def numpy_type(spelled: str) -> np.dtype[Any]:
    """Return NumPy's element type of the tensor type *spelled*; that of strings is object."""
    name = inside(spelled)
    return np.dtype(object) if name == "string" else DType.of(_TWINS.get(name, name)).numpy


def inside(spelled: str) -> str:
    """Return what a type holds: ``tensor(float)`` of ``seq(tensor(float))``, ``float`` of that."""
    return spelled.partition("(")[2][:-1]


def is_container(spelled: str, container: str) -> bool:
    """Whether *spelled* is a type of *container*: ``seq``, ``optional`` or ``map``."""
    return spelled.startswith(f"{container}(")


def is_host_type(spelled: str | None) -> bool:
    """Whether a value of the type *spelled* is not a tensor of numbers; one that is not known is taken for a tensor."""
    return spelled is not None and (spelled == STRINGS or not spelled.startswith(("tensor(", "sparse_tensor(")))


def has_strings(value: Any) -> bool:
    """Whether *value* is a tensor of strings."""
    return isinstance(value, np.ndarray) and value.dtype == object


def describe_constant(array: Any) -> str:
    """Return the layout of a constant, or where it holds strings its type and shape, as a topology prints it."""
    return f"{STRINGS} {list(array.shape)}" if has_strings(array) else str(Layout.of(array))


def kind_of(value: Any) -> str:
    """Return what a value of a run is, in words."""
    if isinstance(value, np.ndarray):
        return "a tensor"
    if isinstance(value, tuple | list):
        return "a sequence"
    if isinstance(value, dict):
        return "a map"
    return "an optional without an element" if value is None else "a tensor"
