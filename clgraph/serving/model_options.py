"""The file beside a model that says how it is compiled and served: TOML, typed and checked, and naming no files."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.core.nearest import meant
from clgraph.errors import OptionError
from clgraph.ops.preprocess import Preprocess
from clgraph.throughput.batching import Batching

Sizes = Mapping[str, tuple[Any, ...]]


@frozen(kw_only=True)
class ServedModelOptions:
    """How a model is compiled and served; ``None`` where the server's own option counts.

    Attributes:
        device, precision, weights, threads, keep_f32, shapes, outputs: As for :func:`clgraph.compile`.
        preprocess: What is done to images that the only input, or inputs by name, are fed, as for
            :func:`clgraph.compile`.
        prepare: Shapes to compile for before the model is ready; a dimension is a size, or the smallest and largest.
        versions: So many of the newest versions are served.
        hint: ``latency`` gives one call at a time all cores; ``throughput`` shares them out to streams.
        streams: How many; by default what was measured, else one a core.
        batching: How concurrent calls become batches; ``None`` for not.
        queue: Calls that may wait; more are refused.
        timeout: Seconds after which a call is given up.
    """

    device: str | None = None
    precision: str | None = None
    weights: str | None = None
    threads: int | None = None
    keep_f32: tuple[str, ...] = ()
    shapes: Sizes | None = None
    outputs: tuple[str, ...] | None = None
    preprocess: Preprocess | Mapping[str, Preprocess] | None = None
    prepare: Sizes | None = None
    versions: int = 1
    hint: str = "throughput"
    streams: int | None = None
    batching: Batching | None = None
    queue: int | None = None
    timeout: float | None = None


def read_options(path: Path) -> ServedModelOptions:
    """Return the options in the file *path*.

    Raises:
        OptionError: It is no TOML, or holds what is not an option or of another type.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{path.name} cannot be read: {error}") from error
    known = [field.name for field in fields(ServedModelOptions)]
    if unknown := sorted(given.keys() - set(known)):
        raise OptionError(
            f"{path.name}: {unknown[0]!r} is not an option{meant(unknown[0], known)}; options are {', '.join(known)}"
        )
    found: dict[str, Any] = {}
    for name, value in given.items():
        check, wanted = _CHECKS[name]
        if not check(value):
            raise OptionError(f"{path.name}: {name} = {value!r} must be {wanted}")
        try:
            found[name] = _MADE.get(name, _frozen)(value)
        except OptionError as error:
            raise OptionError(f"{path.name}: {error}") from error
    if found.get("hint") == "latency" and found.keys() & {"streams", "batching"}:
        raise OptionError(f"{path.name}: streams and batching do nothing with hint = 'latency'")
    return ServedModelOptions(**found)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < float("inf")


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_range(value: Any) -> bool:
    return _is_size(value) or (isinstance(value, list) and len(value) == 2 and all(map(_is_size, value)))


def _tables_of(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def checked(value: Any) -> bool:
        return isinstance(value, dict) and all(isinstance(v, list) and all(map(check, v)) for v in value.values())

    return checked


def _is_batching(value: Any) -> bool:
    known = {field.name for field in fields(Batching)}
    return isinstance(value, dict) and value.keys() <= known and isinstance(value.get("pad", {}), dict)


def _is_preprocess(value: Any) -> bool:
    known = {field.name for field in fields(Preprocess)} - {"dtype"}
    return isinstance(value, dict) and all(
        each.keys() <= known for each in (value.values() if _is_by_input(value) else [value])
    )


def _is_by_input(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(isinstance(each, dict) for each in value.values())


def _preprocess(value: Mapping[str, Any]) -> Preprocess | dict[str, Preprocess]:
    if _is_by_input(value):
        return {name: Preprocess(**_frozen(each)) for name, each in value.items()}
    return Preprocess(**_frozen(value))


_COUNT = (_is_count, "a whole number from 1 on")
_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "device": (_is_text, "a device's name"),
    "precision": (_is_text, "a precision's name"),
    "weights": (_is_text, "a type's name"),
    "threads": _COUNT,
    "keep_f32": (_is_texts, "a list of patterns"),
    "shapes": (_tables_of(lambda d: _is_size(d) or _is_text(d)), "a table of lists of sizes, or names for open ones"),
    "outputs": (_is_texts, "a list of names"),
    "preprocess": (_is_preprocess, "a table of what docs/preprocessing.md lists, or one such table an input"),
    "prepare": (_tables_of(_is_range), "a table of lists of sizes, or [smallest, largest]"),
    "versions": _COUNT,
    "hint": (lambda value: value in ("latency", "throughput"), "'latency' or 'throughput'"),
    "streams": _COUNT,
    "batching": (_is_batching, "a table of maximum, wait_ms, pad and step"),
    "queue": _COUNT,
    "timeout": (_is_seconds, "a number of seconds above 0"),
}


def _frozen(value: Any) -> Any:
    """Return lists as tuples, all the way down."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return {name: _frozen(each) for name, each in value.items()} if isinstance(value, dict) else value


_MADE: Mapping[str, Callable[[Any], Any]] = {"batching": lambda value: Batching(**value), "preprocess": _preprocess}
"""Options that are made of tables."""
