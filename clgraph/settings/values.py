"""Values of options: what an environment variable, the command line or a caller gives, and what some have to be.

The functions that read text raise ``ValueError`` for what they cannot read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any

from clgraph.errors import OptionError

PRODUCT_PRECISIONS = ("tf32x3", "f16x3")
"""Precisions that are ``f32`` but for how products are made: a feature of every device where one is asked for."""
PRECISIONS = ("f32", "f16", "bf16", "auto", *PRODUCT_PRECISIONS)
EXECUTORS = ("auto", "persistent", "stream")
WEIGHTS = ("given", "int8", "int4")
WEIGHT_GROUPS = (32, 64, 128, 256)
"""How many weights of few bits may share a scale."""
LOG_LEVELS = ("debug", "info", "warning", "error")
DEVICE_CLASSES = ("auto", "cpu", "gpu")

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


def group_size(text: str) -> int:
    """Return a number of weights that may share a scale; raises ``ValueError`` for others."""
    if (number := int(text)) not in WEIGHT_GROUPS:
        raise ValueError(f"{number} is not one of {', '.join(map(str, WEIGHT_GROUPS))}")
    return number


def device_classes(text: str) -> str:
    """Return a class of kernels, or one for each of some devices; raises ``ValueError`` for others."""
    for name, equals, kind in (item.strip().rpartition("=") for item in text.lower().split(",")):
        if kind not in DEVICE_CLASSES or bool(name.strip()) != bool(equals):
            raise ValueError(
                f"{name + equals + kind!r} is not one of {', '.join(DEVICE_CLASSES)}, or DEVICE=one of them"
            )
    return text.lower()


def read_option(option: Field[Any], value: Any, where: str) -> Any:
    """Return *value* as the type of *option*; raises ``OptionError`` that calls it *where*."""
    if type(option.default) is int and isinstance(value, int) and type(value) not in (int, bool):
        return value  # a number that is more than one, as a budget of memory is
    if isinstance(value, str) or not isinstance(value, Collection):
        try:
            return option.metadata["read"](str(value))
        except ValueError as error:
            raise OptionError(f"{where}={value}: {error}") from error
    if "tuple[tuple" in str(option.type):
        return _read_pairs(value, where)
    if not isinstance(option.default, frozenset | tuple):
        raise OptionError(f"{where}: {value!r} is several values where one is expected")
    if not all(isinstance(item, str | int | os.PathLike) for item in value):
        raise OptionError(f"{where}: {value!r} is not a collection of names")
    return type(option.default)(map(str, value))


def _read_pairs(value: Collection[Any], where: str) -> tuple[tuple[str, str], ...]:
    """Return a mapping, or a collection of pairs, as pairs of texts."""
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
    for pair in pairs:
        fits = isinstance(pair, tuple | list) and len(pair) == 2
        if not fits or not isinstance(pair[0], str) or not isinstance(pair[1], str | int):
            raise OptionError(f"{where}: {pair!r} is not a pair of names; it is given as {{name: name}}")
    return tuple((key, str(to)) for key, to in pairs)
