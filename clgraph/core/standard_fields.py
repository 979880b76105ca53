"""What the standard library knows a dataclass by, copied from a class that it has made.

It makes a class for each class that it is asked to describe, 0.3 ms; a start that compiles asks for twenty.
"""

from __future__ import annotations

import copy
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any


@dataclass(init=False, repr=False, eq=False)
class _Standard:
    """What is copied from."""

    value: Any


_PARAMETERS: Any = vars(_Standard)["__dataclass_params__"]
_FIELD = fields(_Standard)[0]
_OF_CLASS = {"default", "default_factory", "init", "repr", "hash", "compare", "metadata", "name", "type", "kw_only"}
_OTHERS = {name: getattr(_FIELD, name) for name in Field.__slots__ if name not in _OF_CLASS and hasattr(_FIELD, name)}
"""What the standard library adds to a field, by which it tells fields from variables of the class."""


def standard_field(name: str, hint: Any, value: Any, kw_only: bool) -> Field[Any]:
    """Return the field that the standard library makes of what a class says of it: a default, or a field."""
    made: Field[Any] = copy.copy(value) if isinstance(value, Field) else field(default=value)
    made.name, made.type = name, hint
    if made.kw_only is MISSING:
        made.kw_only = kw_only
    for other, of in _OTHERS.items():
        if getattr(made, other) is None:
            setattr(made, other, of)
    return made


def standard_parameters(frozen: bool) -> Any:
    """Return what the standard library keeps of how a class was made."""
    made = copy.copy(_PARAMETERS)
    made.frozen = frozen
    return made
