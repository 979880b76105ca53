from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.opencl
def test_the_tour_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for block in blocks:
        exec(compile(block, "docs/tour.md", "exec"), names)
    assert len(blocks) > 5
    assert "convolution" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_code_that_pages_quote_stands_in_the_files() -> None:
    found = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for path, block in re.findall(r"<!-- from (\S+) -->\n```\w+\n(.*?)```", text, re.DOTALL):
            assert block in (ROOT / path).read_text(encoding="utf-8"), (
                f"{page.name} quotes {path} as it is not:\n{block}"
            )
            found += 1
    assert found > 5
