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

_DIGITS = range(8, 18)
"""Significant digits of floats: eight, as ONNX Runtime has them, or as many as tell them from all others."""


@primitive
@frozen
class StringCast(OfHostValues):
    """x as strings, or strings as numbers of *dtype*.

    Floats are written with eight digits, or with as many as tell them apart, ``NaN``, ``INF`` and ``-INF``; bools as
    ``1`` and ``0``.
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
            y.flat[at] = _text(element, DType.of(x.dtype)) if self.dtype is None else _number(element, self.dtype)
        return (y,)


def _has_fractions(dtype: DType) -> bool:
    """Whether a type is floating-point, or has 8 or 4 bits that are stored so."""
    return dtype.floating or dtype.numpy.name.startswith("float")


def _text(number: Any, dtype: DType) -> str:
    if not _has_fractions(dtype):
        return str(int(number))
    exact = float(number)
    if not np.isfinite(exact):
        return "NaN" if np.isnan(exact) else "INF" if exact > 0 else "-INF"
    texts = (f"{exact:.{digits}g}" for digits in _DIGITS)
    return next(text for text in texts if _number(text, dtype) == number)


def _number(text: str, dtype: DType) -> Any:
    try:
        number = float(text) if _has_fractions(dtype) else int(text)
        with np.errstate(over="ignore"):
            return np.array(number).astype(dtype.numpy) if _has_fractions(dtype) else dtype.numpy.type(number)
    except (ValueError, OverflowError) as error:
        raise InputError(f"the text {text!r:.40} is no {dtype} number") from error
