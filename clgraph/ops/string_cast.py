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
        flat = x.ravel()
        y = np.empty(len(flat), object if self.dtype is None else self.dtype.numpy)
        y[:] = _texts(flat, DType.of(x.dtype)) if self.dtype is None else _numbers(flat, self.dtype)
        return (y.reshape(x.shape),)


def _texts(numbers: Array, dtype: DType) -> list[str]:
    """Return the text of each number; most floats have as few digits as any."""
    if not _has_fractions(dtype):
        wide = numbers if dtype == DType.U64 else numbers.astype(np.int64)
        return [*map(repr, wide.tolist())]
    with np.errstate(invalid="ignore"):
        exact = numbers.astype(np.float64)
    texts = [f"{number:.{_DIGITS[0]}g}" for number in exact.tolist()]
    for at in np.flatnonzero(~((_nearest(texts, dtype) == numbers) & np.isfinite(exact))):
        texts[at] = _text(numbers[at], dtype)
    return texts


def _numbers(texts: Array, dtype: DType) -> Array:
    """Return the number that each text is."""
    try:
        if _has_fractions(dtype):
            return _nearest(texts.tolist(), dtype)
        return np.array([*map(int, texts.tolist())], dtype.numpy)
    except (TypeError, ValueError, OverflowError):
        # The first text that is none is told; integers of few bits do not come out of a list.
        return np.array([_number(text, dtype) for text in texts.tolist()], dtype.numpy)


def _nearest(texts: list[str], dtype: DType) -> Array:
    with np.errstate(over="ignore"):
        return np.array([*map(float, texts)], np.float64).astype(dtype.numpy)


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
