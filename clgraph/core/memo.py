"""What is derived from a frozen value, kept with the value: found without hashing it, gone when it goes.

It pays from about the fourth time that something is asked: the first costs a dictionary, 1 us. A function must not
return the value itself, which would keep itself alive until Python searches for cycles.

What it brings: binding a member of PP-OCRv4's detection asks for the pitches of a layout 320 times and has 90 layouts;
a hash of a layout costs as much as its pitches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, TypeVar
from weakref import ReferenceType, ref

V = TypeVar("V", bound="Remembering")
A = TypeVar("A")
R = TypeVar("R")


class Remembering:
    """Base of frozen values that keep what :func:`remembered` functions have made of them."""

    __slots__ = ("_memo",)
    _memo: dict[Any, Any] | None


def remembered(function: Callable[[V], R]) -> Callable[[V], R]:
    """Decorator of a pure function of one frozen value: computed once a value."""

    @wraps(function)
    def found(value: V) -> R:
        memo = getattr(value, "_memo", None)
        if memo is None:
            memo = {}
            object.__setattr__(value, "_memo", memo)
        if (known := memo.get(function, memo)) is memo:
            known = memo[function] = function(value)
        result: R = known
        return result

    return found


def remembered_with(function: Callable[[V, A], R]) -> Callable[[V, A], R]:
    """Decorator of a pure function of one frozen value and an argument: computed once a value and argument."""

    @wraps(function)
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

    return found


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
        if key in known:
            return known[key][1]
        result = function(*arrays)
        if not all(map(_lasts, arrays)):
            return result
        # An array takes along what its place in memory would say of the next one there.
        guards = [ref(array, lambda _: known.pop(key, None)) for array in arrays if array is not None]
        known[key] = guards, result
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
