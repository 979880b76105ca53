"""Run-time check of a value against a declared type, for values read from files."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from clgraph.errors import ModelError


def check_fields(of: type, values: Mapping[str, object]) -> None:
    """Raise ``ModelError`` where one of *values* is not of the type that the dataclass *of* declares for it."""
    hints = _hints(of)
    for name, value in values.items():
        if not fits(value, hints.get(name, Any)):
            raise ModelError(f"{of.__name__}.{name} is {value!r:.60}, and should be {hints[name]}")


def fits(value: object, hint: Any) -> bool:
    """Return whether *value* is of the type *hint*; a list is as good as a tuple, and a whole number as a float."""
    if hint is Any:
        return True
    origin, of = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in of)
    if origin is Literal:
        return value in of
    if origin in (tuple, list):
        return isinstance(value, tuple | list) and _items_fit(value, of)
    if origin is frozenset:
        return isinstance(value, frozenset) and all(fits(item, of[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(k, of[0]) and fits(v, of[1]) for k, v in value.items())
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if hint is None:
        hint = NoneType
    return isinstance(value, hint) if isinstance(hint, type) else True


def _items_fit(items: tuple[object, ...] | list[object], of: tuple[Any, ...]) -> bool:
    if len(of) == 1 or of[1:] == (...,):
        return all(fits(item, of[0]) for item in items)
    return len(items) == len(of) and all(map(fits, items, of))


@functools.cache
def _hints(of: type) -> dict[str, Any]:
    """Return the types of a class's fields; none where a plugin's cannot be told."""
    try:
        return get_type_hints(of)
    except NameError:
        return {}
