from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from clgraph.cli import cli
from clgraph.graph.known_values import MOST_EVALUATED_BYTES, VALUE_ELEMENTS
from clgraph.model.run_queue import LONGEST
from clgraph.passes.fusing.gain import MOST_FUSED
from clgraph.passes.pipeline import default_pipeline
from clgraph.settings import FOREIGN, Settings, option_table
from tests.support.pages import data_of

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.opencl
def test_every_form_of_quantised_model_is_compared_as_the_page_on_quantisation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("small_model.py", "quantise.py"):
        subprocess.run([sys.executable, DOCS / "examples" / name], check=True, capture_output=True)
    page = (DOCS / "quantisation.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"\$ clgraph (compare .*)", page)
    for model in ("channels", "operators", "dynamic"):
        asked = shlex.split(command.replace("static", model))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert cli.main(asked, standalone_mode=False) == 0
        assert "adds most" in printed.getvalue().splitlines()[-1]


def _too_long(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page over 120 characters, but for those that Markdown cannot break.

    These are: what a program printed (a block of ``text``), a row of a table of four or more columns (a narrower table
    can be a list), and a line that is one word, such as an address.
    """
    printed = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            printed = line.strip() == "```text"
        row = line.startswith("|") and len(re.findall(r"(?<!\\)\|", line)) > 4
        word = len(line.lstrip(" -*").split()) == 1
        if len(line) > 120 and not (printed or row or word):
            yield number, line


WRITTEN = [p for p in (*PAGES, ROOT / "CHANGELOG.md") if DOCS / "benchmarks" not in p.parents]


def test_lines_of_a_page_have_at_most_120_characters() -> None:
    for page in WRITTEN:
        assert list(_too_long(page.read_text(encoding="utf-8"))) == [], page.relative_to(ROOT)


def test_a_line_is_too_long_where_markdown_can_break_it() -> None:
    words = "word " * 30
    narrow, wide = f"| {words}| b |", f"| {words}| b | c | d |"
    text = "\n".join([words, "```text", words, "```", "```sh", words, "```", narrow, wide, "- https://" + "a" * 130])
    assert [number for number, _ in _too_long(text)] == [1, 6, 8]


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
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


def _commands(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of every ``clgraph ...`` that a page gives: in shell blocks, or behind a prompt."""
    text = page.read_text(encoding="utf-8")
    given = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL) + re.findall(r"\n\n((?:    .*\n)+)", text))
    given += "\n".join(re.findall(r"^\$ (.*)", text, re.MULTILINE))
    for line in given.replace("\\\n", " ").replace("&&", "\n").splitlines():
        if found := re.match(r"\s*(?:[A-Z_]+=\S+ +)*clgraph (.*)", line):
            yield shlex.split(re.split(r" >>? ", found[1])[0], comments=True)


def test_every_command_that_a_page_shows_can_be_given() -> None:
    for page in PAGES:
        for arguments in _commands(page):
            command: click.Command = cli
            context = click.Context(cli, info_name="clgraph")
            rest = list(arguments)
            while isinstance(command, click.Group):
                found = command.get_command(context, rest[0])
                assert found is not None, f"{page.name}: clgraph {' '.join(arguments)}"
                command, context = found, click.Context(found, parent=context, info_name=rest.pop(0))
            try:
                command.make_context(str(command.name), rest, parent=context.parent)
            except click.UsageError as error:
                pytest.fail(f"{page.name}: clgraph {' '.join(arguments)}: {error.message}")


def _ours() -> set[str]:
    """Return the files of the repository that pages may name, from its root and from its main folders."""
    parts = ("clgraph", "cl_kernels", "tests", "tools", "docs")
    files = [p.relative_to(ROOT).as_posix() for part in parts for p in (ROOT / part).rglob("*") if p.is_file()]
    short = [name.partition("/")[2] for name in files if name.startswith(("clgraph/", "cl_kernels/"))]
    added = [re.sub(r"^docs/examples/new_\w+/", "", name) for name in files if name.startswith("docs/examples/new_")]
    return {*files, *short, *added}


def test_files_that_a_page_names_are_there() -> None:
    ours = _ours()
    folders = {name.partition("/")[0] for name in ours if "/" in name}
    for page in PAGES:
        named = re.findall(r"[\w./-]+/[\w.-]+\.(?:py|clh?|md|json|toml|sh)\b", page.read_text(encoding="utf-8"))
        for name in {name.removeprefix("./") for name in named if "://" not in name}:
            if name.partition("/")[0] in folders:
                assert name in ours or (DOCS / name).is_file(), f"{page.name} names {name}"


def test_pages_name_passes_without_the_numbers_that_new_ones_shift() -> None:
    names = {p.name for p in default_pipeline()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for number, name in re.findall(r"\b(\d\d?)(?:_| +\|? *)`?([a-z]+(?:_[a-z]+)*)\b", text):
            assert name not in names, f"{page.name} gives {name} the number {number}: only the generated list does"
        for name in re.findall(r"--(?:stop-after|disable-pass)[ =]([a-z_]+)", text):
            assert name in names or f'name: ClassVar[str] = "{name}"' in text, f"{page.name}: no pass is called {name}"


def test_variables_that_a_page_names_are_read() -> None:
    known = {variable for variable, _, _ in option_table()} | FOREIGN
    defined = {name for path in (ROOT / "cl_kernels").rglob("*.cl*") for name in _upper(path)}
    for page in PAGES:
        for name in _upper(page):
            assert name in known | defined, f"{page.name} names {name}"


def _upper(path: Path) -> set[str]:
    return set(re.findall(r"\bCLGRAPH_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8")))


def test_commands_that_a_page_names_in_its_text_are_there() -> None:
    for page in PAGES:
        for name in re.findall(r"`clgraph ([a-z][a-z_-]*)[^`]*`", page.read_text(encoding="utf-8")):
            assert cli.get_command(click.Context(cli), name) is not None, f"{page.name} names clgraph {name}"


def test_the_architecture_lists_the_layers_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [c["layers"] for c in project["tool"]["importlinter"]["contracts"] if c["name"] == "layers"]
    page = (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Layers")[2]
    rows = re.findall(r"^\| `(\w+)`(.*?)\|", page, re.MULTILINE)
    shown = [[first, *re.findall(r"`(\w+)`", others)] for first, others in rows]
    assert shown == [re.findall(r"\w+", layer) for layer in layers]


def test_bounds_that_the_page_on_limits_gives_are_those_of_the_code() -> None:
    text = (DOCS / "limits.md").read_text(encoding="utf-8").partition("## Bounds")[2].partition("## ")[0]
    given = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)[1:])
    defaults = {f.name: f.default for f in fields(Settings)}
    bounds = {
        "programs kept for input shapes": f"{defaults['shape_cache']} MiB",
        "elements of an input whose values determine shapes": f"{VALUE_ELEMENTS}",
        "pending calls of `run_async`": f"{LONGEST}",
        "operations fused into one node": f"{MOST_FUSED}",
        "scanned results of a Loop or Scan, or a sequence, on the host": f"{MOST_EVALUATED_BYTES >> 30} GiB",
        "compiled models in the cache": f"{defaults['model_cache'] >> 10} GiB",
    }
    assert given.keys() == bounds.keys()
    for what, bound in bounds.items():
        assert re.search(rf"\b{bound}\b", given[what]), f"{what}: {given[what]}, but the code has {bound}"


def _terms() -> list[tuple[str, str]]:
    """Return the terms of the glossary, each with the class or option in its brackets, ``""`` where there is none."""
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    return re.findall(r"^\* \*\*([^*]+)\*\*(?:\s\(`(\w+)`\))?", page, re.MULTILINE)


def test_a_term_of_the_glossary_that_names_a_class_or_an_option_names_one_that_is_there() -> None:
    code = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "clgraph").rglob("*.py"))
    found = re.findall(r"^(?:class (\w+)\b|([A-Z]\w+) = )", code, re.MULTILINE)
    classes = {a or b for a, b in found}
    options = {variable.removeprefix("CLGRAPH_").lower() for variable, _, _ in option_table()}
    named = [name for _, name in _terms() if name]
    assert [name for name in named if name not in classes | options] == []
    assert len(named) > 40


def test_the_glossary_gives_a_term_one_meaning() -> None:
    terms = [term for term, _ in _terms()]
    assert sorted(set(terms)) == sorted(terms)
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert len(terms) == page.count("\n* ")


QUICKLY = """
import gc, sys
gc.disable()
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.cmd.build import main
StandaloneHTMLBuilder.search = False
sys.exit(main(sys.argv[1:]))
"""
"""Sphinx without an index of words to search for, a sixth of the time; another tenth is the garbage collector's."""


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    sphinx = re.search(r"-m sphinx (-W .*) \"\$\{@:2\}\" docs ", (ROOT / "tools" / "docs").read_text(encoding="utf-8"))
    assert sphinx is not None
    # A third of the time is furo's.
    options = [*sphinx[1].split(), "-D", "html_theme=basic", str(ROOT / "docs"), str(tmp_path / "site")]
    _builds(tmp_path, [sys.executable, "-c", QUICKLY, *options])


@pytest.mark.slow
def test_the_site_builds_in_its_own_theme(tmp_path: Path) -> None:
    _builds(tmp_path, ["bash", str(ROOT / "tools" / "docs"), str(tmp_path / "site")])


def _builds(tmp_path: Path, command: list[str]) -> None:
    if importlib.util.find_spec("sphinx") is None or importlib.util.find_spec("furo") is None:
        pytest.skip("the extra 'docs' is not installed")
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    passes = (site / "passes.html").read_text(encoding="utf-8")
    assert passes.count("<svg") > 5
    shown = re.findall(r'<a href="(explorer/\w+\.html)" target="explorer-frame">', passes)
    assert len(shown) == 3
    assert f'src="{shown[0]}"' in passes
    for name in shown:
        page = (site / name).read_text(encoding="utf-8")
        assert len(page.encode()) < 1.5 * 2**20
        assert len(data_of(page)["graphs"][0]["steps"]) == len(default_pipeline()) + 1
    assert "clgraph.compile" in (site / "api.html").read_text(encoding="utf-8")


def test_the_picture_of_the_explorer_is_of_the_explorer_as_it_is() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "explorer_picture", "--check"], check=False)
    assert done.returncode == 0, "clgraph/explorer has changed: run tools/explorer_picture"
