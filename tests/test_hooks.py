"""What a class offers beyond its bases, somebody asks for: a hook that is misspelt is called by nobody."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import isfunction
from pathlib import Path

import pytest

from clgraph.graph.primitive import Primitive
from clgraph.passes.base import Pass
from clgraph.selector.implementation import Implementation

ROOT = Path(__file__).parent.parent


@cache
def _words() -> Counter[str]:
    """Import the package; return how often each word stands in it, comments and texts included."""
    found: Counter[str] = Counter()
    for path in (ROOT / "clgraph").rglob("*.py"):
        found.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if {"ops", "implementations", "passes"} & {*path.parts} and not name.endswith("__main__"):
            import_module(name)
    return found


def _below(base: type) -> Iterator[type]:
    for found in base.__subclasses__():
        yield found
        yield from _below(found)


@pytest.mark.parametrize("base", [Implementation, Primitive, Pass])
def test_each_method_overrides_one_or_is_called(base: type) -> None:
    words, defined, classes = _words(), Counter[str](), dict[str, list[str]]()
    for cls in {c for c in _below(base) if c.__module__.startswith("clgraph.")}:
        for name, value in vars(cls).items():
            method = isinstance(value, classmethod | staticmethod) or isfunction(value)
            if method and not name.startswith("_") and not any(name in vars(b) for b in cls.__mro__[1:]):
                defined[name] += 1
                classes.setdefault(name, []).append(cls.__name__)
    assert len(defined) > 0
    assert {name: classes[name] for name in defined if words[name] <= defined[name]} == {}
