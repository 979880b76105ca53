"""Tests that a selection by marks leaves out are not made: half of the time of collecting eleven thousand others."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

MARKS = ("opencl", "slow")
OF_MARKS = (ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.Name, ast.Load)
OF_THE_FILE = re.compile(rb"^pytestmark = \[?\s*pytest\.mark\.(\w+)", re.MULTILINE)


@functools.cache
def left_out(expression: str) -> frozenset[str]:
    """Return which of ``MARKS`` leave a test out by themselves, whatever else it is marked with.

    An expression of nothing but marks, ``and``, ``or``, ``not`` and parentheses means the same to pytest and to Python.
    Others leave out nothing here, nor do wrong ones, of which pytest tells.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        return frozenset()
    for part in ast.walk(tree):
        if not isinstance(part, OF_MARKS) or (isinstance(part, ast.Name) and part.id not in MARKS):
            return frozenset()
    compiled = compile(tree, "marks", "eval")
    every = map(set, chain.from_iterable(combinations(MARKS, n) for n in range(len(MARKS) + 1)))
    selected = [marks for marks in every if eval(compiled, {mark: mark in marks for mark in MARKS})]
    return frozenset(MARKS).difference(*selected)


def of(config: pytest.Config) -> frozenset[str]:
    """Return the marks of tests that are not to be made; none where tests are named, which are then said to be left."""
    return frozenset() if any("::" in a for a in config.args) else left_out(config.option.markexpr)


def is_left_out(path: Path, marks: frozenset[str]) -> bool:
    """Whether every test of the file has one of *marks*, which it says in a line of its own."""
    if not marks or path.suffix != ".py":
        return False
    found = OF_THE_FILE.search(path.read_bytes())
    return found is not None and found[1].decode() in marks


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file of which no test is selected."""
    return True if is_left_out(collection_path, of(config)) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: Any) -> list[pytest.Item] | None:
    """Make nothing of a function whose marks leave it out, with all its parameters."""
    if not name.startswith("test") or not inspect.isfunction(obj):
        return None
    return [] if of(collector.config) & {mark.name for mark in getattr(obj, "pytestmark", ())} else None
