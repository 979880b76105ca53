"""Messages: what both the command line and Python users read names what both of them have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import clgraph

_FOLDER = Path(clgraph.__file__).parent
_PYTHON = re.compile(r"\b[a-z]\w*=[{\['\"(]|\b(?:clgraph|Model|Topology|Session|logging)\.\w+|\b[a-z_]+\(\w*=")
"""Code of a way out: an argument (``shapes={...}``), a name of the API, or a call with an argument."""
_COMMAND_LINE = re.compile(r"--[a-z]|CLGRAPH_[A-Z]|`clgraph |in Python")
_PYTHON_ONLY = {
    "backend.py": "ONNX's interface",
    "onnxruntime": "ONNX Runtime's interface",
    "as_onnxruntime.py": "programs of ONNX Runtime",
    "extensions/custom_operator.py": "operators that are written in Python",
    "model/state": "sessions",
    "model/tensor.py": "tensors",
    "model/delivery.py": "what runs are given in Python",
    "model/feeds.py": "what runs are given in Python",
    "network/enqueueing.py": "runs on a caller's queue",
    "runtime/process.py": "processes that are forked",
    "runtime/wheel.py": "another PoCL in the process",
    "cli/peers.py": "a process in which clgraph stands in for onnxruntime",
    "engines/opening.py": "an option that the command line has as its own",
    "explorer/page.py": "markup",
    "ray": "jobs and services that are written in Python",
}
"""Modules, and packages, whose messages reach users of Python alone."""


def _messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of errors that a module raises, and of ways out: with ``…`` for what is filled in."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    left_out = {id(part) for text in nodes if isinstance(text, ast.JoinedStr) for part in text.values}
    left_out |= {id(s.value) for s in nodes if isinstance(s, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = (str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value


def _sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the messages that are sentences: words in a row, and no markup, C or Graphviz."""
    for line, text in _messages(path):
        if len(re.findall(r"[a-z]{2,} (?=[a-z`-])", text)) >= 4 and not re.search(r"[<>]\w|;$|->|:[if]\b", text):
            yield line, text


def test_a_way_out_that_is_python_has_one_of_the_command_line_beside_it() -> None:
    found = []
    for path in sorted(_FOLDER.rglob("*.py")):
        name = path.relative_to(_FOLDER).as_posix()
        if any(f"{name}/".startswith(f"{part}/") for part in _PYTHON_ONLY):
            continue
        for line, text in _sentences(path):
            if _PYTHON.search(text) and not _COMMAND_LINE.search(text):
                found.append(f"{name}:{line}: {text}")
    assert found == []


def test_what_reaches_users_of_python_alone_is_there() -> None:
    assert [name for name in _PYTHON_ONLY if not (_FOLDER / name).exists()] == []


def test_ways_out_of_both_kinds_are_told_apart() -> None:
    for text in ("give it one: shapes={'x': (1,)}", "call clgraph.compile", "pass allow_host(x=1)", "use executor='a'"):
        assert _PYTHON.search(text)
    for text in ("--shape x=1,2", "a file of 3 bytes", "node 'x' has a=1", "input x=3"):
        assert not _PYTHON.search(text)
