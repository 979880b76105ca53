"""Shapes that a caller gives by the names of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from clgraph.errors import InputError

S = TypeVar("S")


def by_name(shapes: Mapping[str, S] | None) -> dict[str, S]:
    """Return *shapes* as a dictionary; raises ``InputError`` where they are none, or a shape is a text or a number."""
    if shapes is not None and not isinstance(shapes, Mapping):
        kind = type(shapes).__name__
        raise InputError(f"shapes go by the inputs' names, as {{'x': (1, 3, 224, 224)}}, not as {kind}")
    for name, shape in (shapes or {}).items():
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            known = "; a dimension's size is given in the shape of each input that has it" * isinstance(shape, int)
            raise InputError(f"input {name!r}: a shape is sizes, names and None, not {shape!r}{known}")
    return dict(shapes or {})
