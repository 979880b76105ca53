"""Numbers as strings and strings as numbers: ONNX's Cast and CastLike where one side is text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import InputError
from clgraph.graph.host_types import STRINGS, has_strings, tensor_type
from clgraph.graph.primitive import Array, OfHostValues, primitive

_DIGITS = {"float16": 9, "float32": 9, "float64": 17}
"""Significant digits after which reading a number again gives the same one."""


@primitive
@frozen
class StringCast(OfHostValues):
    """x as strings, or strings as numbers of *dtype*.

    Floats are written with as many digits as tell them apart, ``NaN``, ``INF`` and ``-INF``, bools as ``1`` and ``0``.
    """

    dtype: DType | None = None

    kind: ClassVar[str] = "string_cast"

    def result_types(self) -> Sequence[str | None]:
        return (STRINGS if self.dtype is None else tensor_type(self.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if has_strings(x) and self.dtype is None:
            return (x,)
        y = np.empty(x.shape, object if self.dtype is None else self.dtype.numpy)
        for at, element in enumerate(x.flat):
            y.flat[at] = _text(element, x.dtype.name) if self.dtype is None else _number(element, self.dtype)
        return (y,)


def _text(number: Any, name: str) -> str:
    if name not in _DIGITS:
        return str(int(number))
    if np.isfinite(number):
        return f"{float(number):.{_DIGITS[name]}g}"
    return "NaN" if np.isnan(number) else "INF" if number > 0 else "-INF"


def _number(text: str, dtype: DType) -> Any:
    try:
        number = float(text) if dtype.floating else int(text)
        with np.errstate(over="ignore"):
            return np.array(number).astype(dtype.numpy) if dtype.floating else dtype.numpy.type(number)
    except (ValueError, OverflowError) as error:
        raise InputError(f"the text {text!r:.40} is no {dtype} number") from error
