"""Changes that a test must notice: the list in ``tests/mutations.toml``, and trying one in a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "mutations.toml"

COPIED = ("clgraph", "cl_kernels", "docs", "tests", "tools", "README.md", "pyproject.toml")

FAILED = 1
"""Status of pytest when a test has failed; others mean that none has run."""


@dataclass(frozen=True)
class Mutation:
    """A change of a file, and the test that notices it.

    Attributes:
        before: Stands in *file* once, and is replaced by *after*.
        test: A node of pytest.
    """

    what: str
    file: str
    before: str
    after: str
    test: str


def mutations() -> list[Mutation]:
    """Read the list."""
    return [Mutation(**m) for m in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]]


def stale(listed: Iterable[Mutation]) -> list[str]:
    """Return what cannot be made as the files are now: of which the text is not there once, or no such test."""
    found, text = list[str](), cache(_text)
    for m in listed:
        if (count := text(m.file).count(m.before)) != 1:
            found.append(f"{m.what}: {m.before!r} stands in {m.file} {count} times")
        file, _, test = m.test.partition("::")
        name = test.partition("[")[0].rpartition("::")[2]
        if f"def {name}(" not in text(file):
            found.append(f"{m.what}: {m.test} is not there")
    return found


def _text(name: str) -> str:
    """Return what a file of the repository holds; nothing where there is none."""
    file = ROOT / name
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def working_copy(folder: Path) -> Path:
    """Copy the repository to *folder*; return where it is."""
    copy = folder / "clgraph"
    for name in COPIED:
        source, target = ROOT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return copy


def tried(mutation: Mutation, copy: Path) -> str | None:
    """Make the change in *copy*, run its test and undo the change; return why the test has not failed, if so."""
    file = copy / mutation.file
    text = file.read_text(encoding="utf-8")
    if text.count(mutation.before) != 1:
        return f"{mutation.before!r} stands in {mutation.file} {text.count(mutation.before)} times"
    file.write_text(text.replace(mutation.before, mutation.after), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", "-m", "", mutation.test]
    variables = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=variables, capture_output=True, text=True, check=False)
    finally:
        file.write_text(text, encoding="utf-8")
    if done.returncode == FAILED:
        return None
    return "passes" if done.returncode == 0 else f"does not run: {done.stdout[-500:]}"
