"""What options are made of: attributes with types, and configuration entries."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from clgraph.onnxruntime.statuses import MismatchError, RefusedError

_LONGEST_KEY = 1024
"""Characters of a configuration entry's name, as ``onnxruntime_c_api.h`` has it."""


def _attribute(name: str) -> property:
    def value(options: Typed) -> Any:
        return options._values[name]

    return property(value)


def _converted(value: Any, wanted: type[Any]) -> Any:
    """Return *value* in the type of an attribute; raises ``TypeError`` or ``ValueError`` where it has no such value."""
    if wanted is int:
        number = operator.index(value)
        if not -(2**31) <= number < 2**31:
            raise ValueError(number)
        return number
    if wanted is str and isinstance(value, bytes):
        return value.decode()
    if (wanted is bool and (value is None or hasattr(value, "__bool__"))) or isinstance(value, wanted):
        return wanted(value)
    raise TypeError(value)


class Typed:
    """Attributes with types and defaults; another name or type is an error, as with ONNX Runtime's own classes."""

    __slots__ = ("_values",)
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        object.__setattr__(self, "_values", dict(self.defaults))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls) -> None:
        """Let the class have the attributes, too, which programs ask it for."""
        for name in cls.defaults:
            setattr(cls, name, _attribute(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.defaults:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        wanted = type(self.defaults[name])
        try:
            self._values[name] = _converted(value, wanted)
        except (TypeError, ValueError) as error:
            raise MismatchError(f"{name} is of type {wanted.__name__}, not {value!r}") from error

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        what = f"{type(self).__name__!r}, nor what holds one, as a session does"
        raise MismatchError(f"cannot pickle or copy {what}: make another and set what it differs in")


class Entries:
    """Configuration entries: texts by name."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.entries: dict[str, str] = {}

    def add(self, key: str, value: str) -> None:
        """Add an entry; raises ``TypeError`` for what is no text, ``RuntimeError`` for a name that is too long."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise MismatchError(f"a configuration entry is two texts, not {key!r} and {value!r}")
        if not 0 < len(key) <= _LONGEST_KEY:
            raise RefusedError(f"Config key is empty or longer than maximum length {_LONGEST_KEY}")
        self.entries[key] = value

    def get(self, key: str) -> str:
        """Return an entry; raises ``RuntimeError`` where there is none, ``TypeError`` for what is no text."""
        if not isinstance(key, str):
            raise MismatchError(f"a configuration entry is named by a text, not {key!r}")
        if key not in self.entries:
            raise RefusedError(f"{self._what} has no configuration entry {key!r}")
        return self.entries[key]
