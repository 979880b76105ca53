"""Run-time check of a value against a declared type, for values read from files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from clgraph.errors import ModelError

Check = Callable[[object], bool]


def check_fields(of: type, values: Mapping[str, object]) -> None:
    """Raise ``ModelError`` where one of *values* is not of the type that the dataclass *of* declares for it."""
    hints = _hints(of)
    for name, value in values.items():
        if not fits(value, hints.get(name, Any)):
            raise ModelError(f"{of.__name__}.{name} is {value!r:.60}, and should be {hints[name]}")


def fits(value: object, hint: Any) -> bool:
    """Return whether *value* is of the type *hint*; a list is as good as a tuple, and a whole number as a float."""
    return _check(hint)(value)


@functools.cache
def _check(hint: Any) -> Check:
    """Return what tells whether a value is of the type *hint*: taken apart once, asked of every row of a file."""
    if hint is Any:
        return lambda value: True
    origin, of = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        checks = tuple(map(_check, of))
        return lambda value: any(check(value) for check in checks)
    if origin is Literal:
        return lambda value: value in of
    if origin in (tuple, list):
        return _items(of)
    if hint in (tuple, list):
        return lambda value: isinstance(value, tuple | list)
    if origin is frozenset:
        item = _check(of[0])
        return lambda value: isinstance(value, frozenset) and all(map(item, value))
    if origin is dict:
        key, held = map(_check, of)
        return lambda value: isinstance(value, dict) and all(map(key, value)) and all(map(held, value.values()))
    if hint in (int, float):
        return lambda value: isinstance(value, (int, hint)) and not isinstance(value, bool)
    kind = NoneType if hint is None else hint
    return (lambda value: isinstance(value, kind)) if isinstance(kind, type) else (lambda value: True)


def _items(of: tuple[Any, ...]) -> Check:
    """Return what tells whether a value is a list or tuple of items *of* these types, of the first any number."""
    if len(of) == 1 or of[1:] == (...,):
        item = _check(of[0])
        return lambda value: isinstance(value, tuple | list) and all(map(item, value))
    checks = tuple(map(_check, of))

    def fit(value: object) -> bool:
        if not isinstance(value, tuple | list) or len(value) != len(checks):
            return False
        return all(check(item) for check, item in zip(checks, value, strict=True))

    return fit


@functools.cache
def _hints(of: type) -> dict[str, Any]:
    """Return the types of a class's fields; none where a plugin's cannot be told."""
    try:
        return get_type_hints(of)
    except NameError:
        return {}
