"""Notebooks of the docs, executed cell by cell; what a cell ends with is shown as a notebook shows it."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"


def _executed(path: Path) -> list[object]:
    """Return what each cell of code ends with."""
    shown, names = [], dict[str, object]()
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), names)
        shown.append(eval(compile(ast.Expression(last.value), path.name, "eval"), names) if last is not None else None)
    return shown


@pytest.mark.opencl
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda p: p.name)
def test_a_notebook_runs_and_shows_what_it_ends_with(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    model, results, explanation, profile, report = _executed(path)
    assert results["y"].shape == (1, 10)
    for value, words in ((model, "input"), (explanation, "because"), (profile, "kernel"), (report, "<iframe srcdoc=")):
        assert words in value._repr_html_()
        assert len(repr(value)) < 200
