"""What holds for every file of the repository that is written by hand."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
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


NAMED_BY_OTHERS = {"Session", "Tokenizer"}
"""The base of ONNX Runtime's ``InferenceSession``, and one of its operators."""


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted((ROOT / "clgraph").rglob("*.py")):
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert len(places) > 1000, "the package is looked through"
    shared = {name: found for name, found in places.items() if len(found) > 1 and name not in NAMED_BY_OTHERS}
    assert shared == {}, "one name for each thing (docs/conventions.md)"


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


TRIED = {"PyInstaller", "model_explorer", "onnxruntime", "openvino"}
"""What a user has installed where clgraph is to work with it: imported there only."""


def _imported(source: str) -> set[str]:
    """Return the first names of what *source* imports, wherever in it."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return {name.split(".")[0] for name in plain | {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)}}


def test_what_the_package_imports_is_declared() -> None:
    """A package that another one happens to bring is not there in every version of that one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(x for name in ("generate", "adapters", "serve", "ray") for x in extras[name])]
    declared = {_distribution(re.split(r"[\[<>=;]", x)[0]) for x in asked}
    modules = set.union(*(_imported(p.read_text(encoding="utf-8")) for p in (ROOT / "clgraph").rglob("*.py")))
    foreign = modules - set(sys.stdlib_module_names) - {"clgraph"} - TRIED
    assert {"numpy", "onnx", "click"} <= foreign
    of = packages_distributions()
    assert {m for m in foreign if declared.isdisjoint(map(_distribution, of.get(m, [m])))} == set()


def _distribution(name: str) -> str:
    """Return *name* as indices compare it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
