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

_DIGITS = 8
"""Significant digits of floats, as ONNX Runtime has them. Of those of up to 32 bits, nine tell each from all others."""


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
        y = _texts(x.ravel(), DType.of(x.dtype)) if self.dtype is None else _numbers(x.ravel(), self.dtype)
        return (y.reshape(x.shape),)


def _texts(numbers: Array, dtype: DType) -> Array:
    """Return the text of each number; most floats have as few digits as any."""
    if not _has_fractions(dtype):
        return _integers(numbers if dtype == DType.U64 else numbers.astype(np.int64))
    with np.errstate(invalid="ignore"):
        exact = numbers.astype(np.float64)
    texts = [f"{number:.{_DIGITS}g}" for number in exact.tolist()]
    for at in np.flatnonzero(~((_nearest(texts, dtype) == numbers) & np.isfinite(exact))).tolist():
        texts[at] = _text(exact.item(at), dtype)
    return np.fromiter(texts, object, len(texts))


def _integers(numbers: Array) -> Array:
    """Return the text of each integer; where there are fewer of them from the least to the most, each is made once."""
    least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if most - least < len(numbers):
        texts = np.fromiter(map(repr, range(least, most + 1)), object, most - least + 1)
        return np.asarray(texts.take(numbers - least))
    return np.fromiter(map(repr, numbers.tolist()), object, len(numbers))


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


def _text(number: float, dtype: DType) -> str:
    """Return the text of a float that is not finite, or that eight digits do not tell from all others."""
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else "INF" if number > 0 else "-INF"
    if dtype != DType.F64:
        return f"{number:.{_DIGITS + 1}g}"
    # Python's own text has the fewest digits, but its exponents begin elsewhere.
    digits = len(repr(number).partition("e")[0].lstrip("-0.").replace(".", "").rstrip("0"))
    return f"{number:.{digits}g}"


def _number(text: str, dtype: DType) -> Any:
    try:
        number = float(text) if _has_fractions(dtype) else int(text)
        with np.errstate(over="ignore"):
            return np.array(number).astype(dtype.numpy) if _has_fractions(dtype) else dtype.numpy.type(number)
    except (ValueError, OverflowError) as error:
        raise InputError(f"the text {text!r:.40} is no {dtype} number") from error
