"""What holds for every file of the repository that is written by hand."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_LINES = 400


def test_a_module_has_at_most_400_lines() -> None:
    found = [f for room in ("clgraph", "tests", "tools", "docs") for f in (ROOT / room).rglob("*.py")]
    found += [f for f in (ROOT / "tools").iterdir() if f.is_file()]
    found += [*(ROOT / "cl_kernels").rglob("*.cl*"), *(ROOT / "clgraph/explorer/page").glob("*.js")]
    lengths = {f.relative_to(ROOT).as_posix(): f.read_bytes().count(b"\n") for f in found}
    assert len(lengths) > 1500, "the folders are looked through"
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}, "split by noun (docs/conventions.md)"
