"""What is derived from a frozen value, kept with the value: found without hashing it, gone when it goes.

It pays from about the fourth time that something is asked: the first costs a dictionary, 1 us. A function must not
return the value itself, which would keep itself alive until Python searches for cycles.

What it brings: binding a member of PP-OCRv4's detection asks for the pitches of a layout 320 times and has 90 layouts;
a hash of a layout costs as much as its pitches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from operator import is_
from typing import Any, ParamSpec, TypeVar
from weakref import ReferenceType, ref

V = TypeVar("V", bound="Remembering")
A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=tuple[Any, ...])

MOST_TUPLES = 1024
"""Results that a function of tuples keeps; then all are forgotten."""


class Remembering:
    """Base of frozen values that keep what :func:`remembered` functions have made of them."""

    __slots__ = ("_memo",)
    _memo: dict[Any, Any] | None


def remembered(function: Callable[[V], R]) -> Callable[[V], R]:
    """Decorator of a pure function of one frozen value: computed once a value."""

    def found(value: V) -> R:
        try:
            memo = value._memo
        except AttributeError:
            memo = None
        if memo is None:
            memo = {}
            object.__setattr__(value, "_memo", memo)
        if (known := memo.get(function, memo)) is memo:
            known = memo[function] = function(value)
        result: R = known
        return result

    return _with_own_code(function, found)


def remembered_with(function: Callable[[V, A], R]) -> Callable[[V, A], R]:
    """Decorator of a pure function of one frozen value and an argument: computed once a value and argument."""

    def found(value: V, argument: A) -> R:
        memo = getattr(value, "_memo", None)
        if memo is None:
            memo = {}
            object.__setattr__(value, "_memo", memo)
        key = function, argument
        if (known := memo.get(key, memo)) is memo:
            known = memo[key] = function(value, argument)
        result: R = known
        return result

    return wraps(function)(found)


def _with_own_code(function: Callable[P, R], found: Callable[P, R]) -> Callable[P, R]:
    """Return *found*, which stands for *function*, with code of its own.

    Python fits code to the types that it meets: that of all such functions together meets values of every class.
    """
    found.__code__ = found.__code__.replace()
    return wraps(function)(found)


def remembered_by(key: Callable[[A], Hashable], most: int = 1024) -> Callable[[Callable[[A], R]], Callable[[A], R]]:
    """Decorator of a pure function of what *key* returns of a value: computed once a key. It never returns ``None``.

    Args:
        most: Results that are kept; then all are forgotten.
    """

    def decorate(function: Callable[[A], R]) -> Callable[[A], R]:
        known: dict[Hashable, R] = {}

        @wraps(function)
        def found(value: A) -> R:
            about = key(value)
            result = known.get(about)
            if result is None:
                if len(known) >= most:
                    known.clear()
                result = known[about] = function(value)
            return result

        return found

    return decorate


def remembered_of_tuples(function: Callable[[T], R]) -> Callable[[T], R]:
    """Decorator of a pure function of a tuple: computed once for each that is met, equal ones apart, without a hash."""
    known: dict[int, tuple[T, R]] = {}

    @wraps(function)
    def found(value: T) -> R:
        entry = known.get(id(value))
        if entry is not None and entry[0] is value:
            return entry[1]
        if len(known) >= MOST_TUPLES:
            known.clear()
        result = function(value)
        # With the tuple, so that its place in memory says which it is.
        known[id(value)] = value, result
        return result

    return found


def _lasts(array: Any) -> bool:
    """Whether nobody can change the array, nor what it is a view of, so that what was made of it stays right."""
    while hasattr(array, "flags"):
        if array.flags.writeable:
            return False
        array = array.base
    return True


def remembered_of_arrays(function: Callable[..., R]) -> Callable[..., R]:
    """Decorator of a pure function of arrays, or ``None``: computed once for those that cannot be written to."""
    known: dict[tuple[int, ...], tuple[list[ReferenceType[Any]], R]] = {}

    @wraps(function)
    def found(*arrays: Any) -> R:
        key = tuple(map(id, arrays))
        given = [array for array in arrays if array is not None]
        # Python drops what a signal handler raises while an array goes, and with it the removal of what was known.
        if (entry := known.get(key)) is not None and all(map(is_, [guard() for guard in entry[0]], given)):
            return entry[1]
        result = function(*arrays)
        if not all(map(_lasts, arrays)):
            return result

        def forget(_: object) -> None:
            known.pop(key, None)

        # An array takes along what its place in memory would say of the next one there.
        known[key] = [ref(array, forget) for array in given], result
        return result

    return found


def shared_of_arrays(function: Callable[..., R]) -> Callable[..., R]:
    """Decorator of a pure function of arrays, or ``None``, that makes another: one at a time, while it is in use.

    Of arrays that can be written to, each caller gets its own.
    """
    known: dict[tuple[int, ...], tuple[tuple[Any, ...], ReferenceType[Any]]] = {}

    @wraps(function)
    def found(*arrays: Any) -> R:
        key = tuple(map(id, arrays))
        # Another thread may drop the last result meanwhile.
        if (entry := known.get(key)) is not None:
            shared: R | None = entry[1]()
            if shared is not None:
                return shared
        result = function(*arrays)
        if not all(map(_lasts, arrays)):
            return result
        # The arrays are kept as long as the result, so that their places in memory say which they are.
        known[key] = arrays, ref(result, lambda _: known.pop(key, None))
        return result

    return found
