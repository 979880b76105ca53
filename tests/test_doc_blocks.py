"""Every block of every page is run as a reader would, or says why not."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from clgraph.settings import settings
from tests.support.doc_blocks import PAGES, ROOT, Block, blocks_of, commands_of, indented_code
from tests.support.doc_folders import HANDS, hands
from tests.support.doc_runs import accounted, opened, runnable

READ = [page for page in PAGES if any(map(runnable, blocks_of(page)))]
NAMES = [page.relative_to(ROOT).as_posix() for page in READ]


@pytest.mark.opencl
@pytest.mark.parametrize("page", READ, ids=NAMES)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = HANDS[page.name].needs if page.name in HANDS else ()
    if missing := [name for name in wanted if importlib.util.find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    monkeypatch.chdir(tmp_path)
    # Another home has no cache, and each process of a page would compile the library, 15 s.
    cache = settings().cache_dir
    for name, value in (("HOME", tmp_path), ("CLGRAPH_CACHE_DIR", cache), ("BROWSER", "true"), ("PYOPENCL_CTX", "0")):
        monkeypatch.setenv(name, str(value))
    at_hand = hands(page)
    for reader in opened(tmp_path_factory.mktemp("tools"), at_hand.prepare(), at_hand.replaced()):
        for block in filter(runnable, blocks_of(page)):
            reader.read(block)


def test_every_block_of_every_page_is_run_or_quoted_or_says_why_not() -> None:
    left = [str(block) for page in PAGES for block in blocks_of(page) if not accounted(block)]
    assert left == [], "give each a mark of tests/support/doc_blocks.py"
    assert sum(map(runnable, (block for page in PAGES for block in blocks_of(page)))) > 60


def test_what_is_not_run_says_why_and_names_tests_that_are_there() -> None:
    for block in (block for page in PAGES for block in blocks_of(page)):
        for mark in ("not run", "not compared"):
            why = block.marks.get(mark, "-")
            assert why, f"{block}: {mark}, and why?"
            assert all((ROOT / name).exists() for name in re.findall(r"tests/[\w/.]*\w", why)), f"{block}: {why}"


def test_code_stands_in_fences() -> None:
    assert {page.name: lines for page in PAGES if (lines := indented_code(page))} == {}


def test_what_is_prepared_for_a_page_is_prepared_for_one_that_is_read() -> None:
    assert sorted(set(HANDS) - {page.name for page in READ}) == []


def _page(tmp_path: Path, text: str) -> list[Block]:
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    return blocks_of(tmp_path / "page.md")


def test_what_stands_right_behind_code_is_what_it_prints(tmp_path: Path) -> None:
    code, apart = "```python\nprint(1)\n```\n\n", "```text\n1\n```\n"
    assert [b.shown for b in _page(tmp_path, code + apart)] == ["1\n"]
    assert [b.shown for b in _page(tmp_path, code + "and then\n\n" + apart)] == [None, None]
    assert [b.shown for b in _page(tmp_path, code + "<!-- not run: why -->\n" + apart)] == [None, None]


def test_a_mark_counts_for_the_block_right_below_it(tmp_path: Path) -> None:
    text = (
        "<!-- not run: why: so -->\n```sh\na\n```\n\n<!-- status 1 -->\n\nwords\n\n```text\n$ b \\\n  c\nd\n$ e\n```\n"
    )
    first, second = _page(tmp_path, text)
    assert (first.marks, second.marks) == ({"not run": "why: so"}, {})
    assert commands_of(second.text) == [("b    c", "d\n"), ("e", "")]


def test_a_block_that_nobody_would_run_is_found(tmp_path: Path) -> None:
    texts = ("```c\nint x;\n```", "```text\nshown\n```", "```toml\na = 1\n```", "```\nls\n```")
    assert [accounted(block) for text in texts for block in _page(tmp_path, text)] == [False] * 4
    (tmp_path / "page.md").write_text("* a\n\n    of the list\n\nwords\n\n    clgraph run\n", encoding="utf-8")
    assert indented_code(tmp_path / "page.md") == [7]


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nclgraph.compile('model.onnx')\n```\n",
        "```text\n$ clgraph --version\nsomething else\n```\n",
        "```sh\nclgraph --nothing\n```\n",
        "```sh\nfalse\ntrue\n```\n",
        "<!-- status 1 -->\n```sh\ntrue | true\n```\n",
        '```sh\npip install ".[tset]"\n```\n',
    ],
)
def test_a_page_that_says_what_is_not_so_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = _page(tmp_path, text)
    for reader in opened(tmp_path, {}, {}):
        with pytest.raises((AssertionError, NameError)):
            reader.read(block)
