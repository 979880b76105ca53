"""The examples of the pages on adding things: laid over a copy of the repository, they pass their own tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"
DOCS = ROOT / "docs"

CASES = {
    "new_operator": (
        "adding_an_operator.md",
        (
            "tests/ops/test_difference.py",
            "tests/implementations/cpu/test_difference.py",
            "tests/implementations/gpu/test_difference.py",
            "tests/ops/test_index.py",
            "tests/selector/test_kernel_sources.py",
        ),
        "difference or index_of",
    ),
    "new_pass": (
        "adding_a_pass.md",
        ("tests/passes/fusing/test_fuse_negation.py", "tests/passes/test_pipeline.py"),
        "negation or file_of_its_name or is_in_the_list",
    ),
}
"""By example: its page, the test files that are run, and which tests of them."""


def _copied(example: str, to: Path) -> None:
    """Copy the repository to *to*, the files of *example* over it, and make the edits that its page shows.

    The other tile functions are left out, so that the library of CPU kernels is built in a second.
    """
    shutil.copy(ROOT / "pyproject.toml", to)
    for folder in ("clgraph", "cl_kernels", "tests"):
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__", "models", "data"))
    shutil.copytree(ROOT / "clgraph" / "data", to / "clgraph" / "data")
    _drop_tile_functions(to / "clgraph" / "implementations" / "cpu")
    shutil.copytree(EXAMPLES / example, to, dirs_exist_ok=True)
    page = (DOCS / CASES[example][0]).read_text(encoding="utf-8")
    for path, block in re.findall(r"<!-- edit (\S+) -->\n```diff\n(.*?)```", page, re.DOTALL):
        _edit(to / path, block)


def _drop_tile_functions(folder: Path) -> None:
    """Remove the modules that declare tile functions, and those that import them."""
    texts = {module: module.read_text(encoding="utf-8") for module in folder.glob("*.py")}
    gone = {module for module, text in texts.items() if "@descriptor(" in text}
    while True:
        names = "|".join(module.stem for module in gone)
        more = {m for m, text in texts.items() if re.search(rf"implementations\.cpu\.({names})\b", text)} - gone
        if not more:
            break
        gone |= more
    for module in gone:
        module.unlink()


def _edit(path: Path, block: str) -> None:
    """Apply a block of unchanged (``" "``), new (``"+"``) and removed (``"-"``) lines, which must fit in one place."""
    lines = block.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] != "+")
    after = "".join(line[1:] for line in lines if line[0] != "-")
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path.name} does not have what the page edits:\n{before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


@pytest.mark.opencl
@pytest.mark.parametrize("example", CASES)
def test_an_example_of_the_pages_passes_its_tests(example: str, tmp_path: Path) -> None:
    _copied(example, tmp_path)
    _, files, chosen = CASES[example]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *files, "-k", chosen],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", CASES)
def test_a_page_names_every_file_of_its_example(example: str) -> None:
    page = (DOCS / CASES[example][0]).read_text(encoding="utf-8")
    files = [p.relative_to(EXAMPLES / example).as_posix() for p in (EXAMPLES / example).rglob("*") if p.is_file()]
    assert [name for name in files if "__pycache__" not in name and name not in page] == []
