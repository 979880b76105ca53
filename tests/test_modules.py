"""What holds for every file of the repository that is written by hand."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_LINES = 400


def test_a_module_has_at_most_400_lines() -> None:
    found = [f for folder in ("clgraph", "tests", "tools", "docs") for f in (ROOT / folder).rglob("*.py")]
    found += [f for f in (ROOT / "tools").iterdir() if f.is_file()]
    found += [*(ROOT / "cl_kernels").rglob("*.cl*"), *(ROOT / "clgraph/explorer/page").glob("*.js")]
    lengths = {f.relative_to(ROOT).as_posix(): f.read_bytes().count(b"\n") for f in found}
    assert len(lengths) > 1500, "the folders are looked through"
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}, "split by noun (docs/conventions.md)"


def test_what_the_type_checker_is_to_ignore_says_why() -> None:
    modules = {path: path.read_text(encoding="utf-8").splitlines() for path in (ROOT / "clgraph").rglob("*.py")}
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for path, lines in modules.items()
        for number, line in enumerate(lines, 1)
        if "# type: ignore" in line and not re.search(r"# type: ignore\[[a-z, -]+\]  # \w", line)
    ]
    assert bare == [], "a reason behind it (docs/conventions.md)"


TOP = {".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "README.md", "cl_kernels", "clgraph", "docs", "pyproject.toml"}


def test_the_top_level_holds_what_it_is_for() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("what belongs to the repository is known to git, and this is a copy")
    kept = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    assert {name.partition("/")[0] for name in kept if name} == TOP | {"tests", "tools"}
