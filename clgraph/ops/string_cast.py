"""Numbers as strings and strings as numbers: ONNX's Cast and CastLike where one side is text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import InputError
from clgraph.graph.host_types import STRINGS, has_strings, tensor_type
from clgraph.graph.primitive import Array, OfHostValues, primitive
from clgraph.handlers import pass_on, suppressed
from clgraph.ops.decimal_texts import DIGITS, LEAST, MOST, decimal_texts

_FEW = 512
"""Numbers that are written one by one: arrays of their digits take longer."""

_MILLION = 1000000


@primitive
@frozen
class StringCast(OfHostValues):
    """x as strings, or strings as numbers of *dtype*.

    Floats are written with eight digits, or with as many as tell them apart, ``NaN``, ``INF`` and ``-INF``; bools as
    ``1`` and ``0``.
    """

    dtype: DType | None = None

    kind: ClassVar[str] = "string_cast"
    warns: ClassVar[bool] = False

    def result_types(self) -> Sequence[str | None]:
        return (STRINGS if self.dtype is None else tensor_type(self.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if self.dtype is not None:
            y = _numbers(x.ravel(), self.dtype)
        elif x.dtype.kind in "iub":
            y = _integers(x.ravel())
        elif has_strings(x):
            return (x,)
        else:
            y = _texts(x.ravel(), DType.of(x.dtype))
        return (y.reshape(x.shape),)


def _texts(numbers: Array, dtype: DType) -> Array:
    """Return the text of each number; most floats have eight digits, as ONNX Runtime has them."""
    if not _has_fractions(dtype):
        return _integers(numbers.astype(np.int64))
    with np.errstate(invalid="ignore"):
        exact = numbers.astype(np.float64)
    finite = np.isfinite(exact)
    if finite.all():
        return _finite(numbers, exact, dtype)
    made = np.empty(len(exact), object)
    made[finite] = _finite(numbers[finite], exact[finite], dtype)
    for text, there in (("NaN", np.isnan(exact)), ("INF", exact == np.inf), ("-INF", exact == -np.inf)):
        made[there] = text
    return made


def _finite(numbers: Array, exact: Array, dtype: DType) -> Array:
    """Return the text of each of *numbers*, which are *exact* as doubles."""
    made, found = _in_digits(exact) if len(exact) < _FEW else _many_in_digits(exact, dtype)
    with np.errstate(over="ignore"):
        told = found.astype(dtype.numpy) == numbers
    for at in np.flatnonzero(~told).tolist():
        made[at] = _text(exact.item(at), dtype)
    return made


def _in_digits(exact: Array) -> tuple[Array, Array]:
    """Return a text of eight digits of each float, and the number that it is."""
    texts = [f"{number:.{DIGITS}g}" for number in exact.tolist()]
    return np.fromiter(texts, object, len(texts)), np.fromiter(map(float, texts), np.float64, len(texts))


def _many_in_digits(exact: Array, dtype: DType) -> tuple[Array, Array]:
    """Return the same where arrays make most of them; doubles that take more digits have all of them."""
    sizes, made, found = np.abs(exact), np.empty(len(exact), object), exact.copy()
    if dtype == DType.F64:
        at_once = (sizes >= LEAST) & (sizes < 10**DIGITS)
        at_once[at_once] = exact[at_once] % 1 != 0
        made[at_once] = [*map(repr, exact[at_once].tolist())]
    else:
        at_once = (sizes >= LEAST) & (sizes <= MOST)
        made[at_once], found[at_once] = decimal_texts(exact[at_once])
    made[~at_once], found[~at_once] = _in_digits(exact[~at_once])
    return made, found


def _integers(numbers: Array) -> Array:
    """Return the text of each integer; where there are fewer of them from the least to the most, each is made once."""
    if numbers.dtype != np.uint64:
        numbers = numbers.astype(np.int64, copy=False)
    if len(numbers) < _FEW:
        plain, known = numbers.tolist(), _few()
        if not plain or plain[0] in known:
            with suppressed(KeyError):
                return np.fromiter(map(known.__getitem__, plain), object, len(plain))
        return np.fromiter(map(repr, plain), object, len(plain))
    least, most = int(numbers.min()), int(numbers.max())
    if most - least < len(numbers):
        texts = np.fromiter(map(repr, range(least, most + 1)), object, most - least + 1)
        return np.asarray(texts.take(numbers - least))
    if least > -_MILLION and most < _MILLION:
        return _up_to_a_million(numbers)
    return np.fromiter(map(repr, numbers.tolist()), object, len(numbers))


@cache
def _few() -> dict[int, str]:
    """Return the texts of small integers, labels mostly: they are found twice as fast as they are written."""
    return {i: repr(i) for i in range(-_FEW, _FEW)}


@cache
def _thousands() -> tuple[Array, Array]:
    """Return the texts of -999 to 999, and of 0 to 999 with three digits."""
    plain = np.array([*map(repr, range(-999, 1000))], object)
    return plain, np.array([f"{i:03d}" for i in range(1000)], object)


def _up_to_a_million(numbers: Array) -> Array:
    """Return the text of each integer of up to six digits, put together of two: sooner than it is written."""
    plain, padded = _thousands()
    numbers = numbers.astype(np.int64)
    signs, sizes = np.sign(numbers), np.abs(numbers)
    high = sizes // 1000
    made = np.asarray(plain.take(np.where(high, signs * high, numbers) + 999))
    long = high != 0
    made[long] += padded.take((sizes - 1000 * high)[long])
    return made


def _numbers(texts: Array, dtype: DType) -> Array:
    """Return the number that each text is."""
    try:
        if _has_fractions(dtype):
            return _nearest(texts.tolist(), dtype)
        return np.array([*map(int, texts.tolist())], dtype.numpy)
    except (TypeError, ValueError, OverflowError) as error:
        pass_on(error)
        # The first text that is none is told; integers of few bits do not come out of a list.
        return np.array([_number(text, dtype) for text in texts.tolist()], dtype.numpy)


def _nearest(texts: list[str], dtype: DType) -> Array:
    with np.errstate(over="ignore"):
        return np.array([*map(float, texts)], np.float64).astype(dtype.numpy)


def _has_fractions(dtype: DType) -> bool:
    """Whether a type is floating-point, or has 8 or 4 bits that are stored so."""
    if dtype.numpy.kind in "iub":
        return False  # a type's name takes NumPy longer than to write ten numbers
    return dtype.floating or dtype.numpy.name.startswith("float")


def _text(number: float, dtype: DType) -> str:
    """Return the text of a finite float that eight digits do not tell from all others."""
    if dtype != DType.F64:
        return f"{number:.{DIGITS + 1}g}"  # nine tell each float of 32 bits from all others
    if LEAST <= abs(number) < 10**DIGITS:
        return repr(number)
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
