"""Regular expressions of RE2, which ONNX's operators are given, as Python's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clgraph.graph.importing import OnnxNode

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_LETTERS = {
    r"\d": "0-9",
    r"\s": r"\t\n\f\r ",
    r"\w": "0-9A-Za-z_",
    r"\D": r"\x00-/:-\U0010ffff",
    r"\S": r"\x00-\x08\x0b\x0e-\x1f!-\U0010ffff",
    r"\W": r"\x00-/:-@\[-^`{-\U0010ffff",
}
"""What stands in sets for escapes, which are about ASCII."""
_OUTSIDE = {r"\z": r"\Z", r"\b": r"(?a:\b)", r"\B": r"(?a:\B)"} | {key: f"[{s}]" for key, s in _LETTERS.items()}
_PARTS = re.compile(
    r"(?P<quoted>\\Q.*?(?:\\E|$))|(?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])|(?P<named>\(\?<(?=\w))"
    r"|(?P<flags>\(\?[A-Za-z]*-?[A-Za-z]*[:)])|(?P<escape>\\.)|(?P<end>\$)|.",
    re.DOTALL,
)
_IN_SETS = re.compile(r"(?P<class>\[:\^?\w+:\])|(?P<escape>\\.)|[\[&~|]", re.DOTALL)


def compiled(pattern: str, node: OnnxNode) -> re.Pattern[str]:
    """Return *pattern*, which *node* has.

    Raises:
        UnsupportedError: Python has not what it asks for, as the classes of Unicode.
    """
    try:
        return re.compile(translated(pattern))
    except (ValueError, re.error, OverflowError, RecursionError) as error:
        raise node.unsupported(f"pattern {pattern!r} is not one that Python reads: {error}") from error


def translated(pattern: str) -> str:
    """Return *pattern* as Python spells it.

    Raises:
        ValueError: There is no such spelling.
    """
    return "".join(_translated(pattern))


def _translated(pattern: str) -> Iterator[str]:
    lines = re.search(r"\(\?[A-Za-z]*m", pattern) is not None
    for part in _PARTS.finditer(pattern):
        text = part.group()
        if part["escape"]:
            _check(text)
        if part["flags"] and "U" in text:
            raise ValueError("the flag U")
        if part["quoted"]:
            yield re.escape(text[2:].removesuffix(r"\E"))
        elif part["set"]:
            yield text[0] + _IN_SETS.sub(_in_set, text[1:-1]) + text[-1]
        elif part["named"]:
            yield "(?P<"
        elif part["end"]:
            yield "$" if lines else r"\Z"
        else:
            yield _OUTSIDE.get(text, text)


def _in_set(part: re.Match[str]) -> str:
    text = part.group()
    if part["class"]:
        name = text[2:-2]
        if name not in _CLASSES:
            raise ValueError(f"the class {text}")
        return _CLASSES[name]
    if part["escape"]:
        _check(text)
        return _LETTERS.get(text, text)
    return "\\" + text


def _check(escape: str) -> None:
    if escape[1] in "pPCQEG" or escape[1].isdigit():
        raise ValueError(f"the escape {escape}")
