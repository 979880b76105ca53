"""Suggestions for a name that does not exist: the names most like it."""

from __future__ import annotations

from collections.abc import Iterable

_AT_MOST = 3
_ALIKE = 0.65
"""Of difflib's ratio: below it ``devise`` is like ``view``."""


def meant(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'a', 'b'?`` for names that hold *name* or are like it, or nothing where none is."""
    from difflib import get_close_matches  # imported where something is wrong: 5 ms of every start otherwise

    known = tuple(known)
    holding = [k for k in known if name.lower() in k.lower()]
    near = list(dict.fromkeys([*holding, *get_close_matches(name, known, _AT_MOST, _ALIKE)]))[:_AT_MOST]
    return f"; did you mean {', '.join(map(repr, near))}?" if near else ""
