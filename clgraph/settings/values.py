"""Values of options as text: what an environment variable or the command line gives. Each raises ``ValueError``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def boolean(text: str) -> bool:
    """Return whether *text* is 1, true, yes or on."""
    if text.lower() not in (*_TRUE, *_FALSE):
        raise ValueError(f"{text!r} is neither 1 nor 0")
    return text.lower() in _TRUE


def positive(text: str) -> int:
    """Return an integer of at least 1."""
    if (number := int(text)) < 1:
        raise ValueError(f"{number} is not at least 1")
    return number


def natural(text: str) -> int:
    """Return an integer of at least 0."""
    if (number := int(text)) < 0:
        raise ValueError(f"{number} is negative")
    return number


_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def bytes_of(text: str) -> int:
    """Return a number of bytes, as ``512 MiB``, ``2GiB`` or ``1048576``."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    found = float(match[1]) * _UNITS.get(match[2], float("nan")) if match else float("nan")
    if not 0 <= found < 1 << 62:
        raise ValueError(f"{text!r} is not a number of bytes: those are given as 512 MiB, 2 GiB or 1048576")
    return int(found)


def folder(text: str) -> Path:
    """Return a path, ``~`` replaced by the home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"~ has no home folder: {error}") from error


def names(text: str) -> frozenset[str]:
    """Return comma-separated names, whose order does not matter."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def words(text: str) -> tuple[str, ...]:
    """Return comma-separated names in their order."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def pairs_of(what: str) -> Callable[[str], tuple[tuple[str, str], ...]]:
    """Return a reader of comma-separated pairs ``KEY=VALUE``; *what* describes one in errors."""

    def read(text: str) -> tuple[tuple[str, str], ...]:
        pairs = [item.rpartition("=") for item in text.split(",") if item.strip()]
        for key, equals, value in pairs:
            if not (key.strip() and equals and value.strip()):
                raise ValueError(f"{key + equals + value!r} is not {what}")
        return tuple((key.strip(), value.strip()) for key, _, value in pairs)

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a reader of one of *choices*, in any case."""

    def read(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError(f"{text!r} is not one of {', '.join(choices)}")
        return text.lower()

    return read
