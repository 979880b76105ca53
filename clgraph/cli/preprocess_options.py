"""``--preprocess``: what is done to images, as one text an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from clgraph.core.nearest import meant

if TYPE_CHECKING:
    from clgraph.ops.preprocess import Preprocess

HELP = "Preprocessing of inputs that are images of bytes; keys as in docs/preprocessing.md."


def parse_preprocess(texts: Sequence[str]) -> dict[str, Preprocess]:
    """Return what is done to images by the names of inputs, the only one's ``""``.

    Args:
        texts: ``image=NV12,size=224x224,mean=124,116,104``, with ``NAME:`` in front where there are several inputs.

    Raises:
        click.UsageError: A text is not of that form, or an input has two.
        OptionError: An attribute has no such value.
    """
    found: dict[str, Preprocess] = {}
    for text in texts:
        head, _, _ = text.partition("=")
        name, _, key = head.rpartition(":")
        if name in found:
            raise click.UsageError(f"--preprocess is given twice for images of {name or 'the input'!r}")
        found[name] = _parsed(text[len(head) - len(key) :])
    return found


def _parsed(text: str) -> Preprocess:
    from clgraph.ops.preprocess import Preprocess

    known = [f.name for f in fields(Preprocess) if f.name != "dtype"]
    given: dict[str, list[str]] = {}
    key = ""
    for part in text.split(","):
        head, equals, value = part.partition("=")
        if equals:
            key, value = head.strip(), value.strip()
            if key not in known:
                near = meant(key, known)
                raise click.UsageError(f"--preprocess: {key!r} is not one of {', '.join(known)}{near}")
            given[key] = [value]
        elif key and head.strip():
            given[key].append(head.strip())
        else:
            raise click.UsageError(f"--preprocess {text!r} is not KEY=VALUE,KEY=VALUE,...")
    return Preprocess(**{key: _value(key, parts) for key, parts in given.items()})


def _value(key: str, parts: list[str]) -> Any:
    text = ",".join(parts)
    try:
        if key in _READ:
            return _READ[key](parts)
    except (ValueError, KeyError) as error:
        raise click.UsageError(f"--preprocess: {key}={text} is not {_FORMS[key]}") from error
    return text


def _size(parts: list[str]) -> Any:
    if parts == ["fed"]:
        return "fed"
    rows, columns = ",".join(parts).replace("x", ",").split(",")
    return int(rows), int(columns)


def _only(read: Callable[[str], Any]) -> Callable[[list[str]], Any]:
    def one(parts: list[str]) -> Any:
        (part,) = parts
        return read(part)

    return one


_YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_READ: Mapping[str, Callable[[list[str]], Any]] = {
    "size": _size,
    "shorter": _only(int),
    "padding": _only(float),
    "mean": lambda parts: tuple(map(float, parts)),
    "scale": lambda parts: tuple(map(float, parts)),
    "batch": _only(_YES.__getitem__),
}
_FORMS = {
    "size": "ROWSxCOLUMNS or fed",
    "shorter": "a number of pixels",
    "padding": "a number",
    "mean": "a number, or one a channel",
    "scale": "a number, or one a channel",
    "batch": "yes or no",
}
