"""The fenced blocks of the pages, with the marks above them and what they are shown to print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(p for p in DOCS.rglob("*.md") if DOCS / "benchmarks" not in p.parents))

MARKS = ("from", "edit", "file", "status", "not run", "not compared", "until the page ends")
"""What a comment above a block may begin with.

``from FILE``: it stands there; ``edit FILE``: an edit of that file; ``file NAME``: the reader writes it to a file;
``status N``: what the command ends with; ``not run: WHY``; ``not compared: WHY``: run, but prints something else here;
``until the page ends``: a command that serves the blocks behind it.
"""


@dataclass(frozen=True)
class Block:
    """A fenced block: where its fence stands, its language, its text, and what prints *shown* behind it."""

    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str] = field(default_factory=dict)
    shown: str | None = None

    def __str__(self) -> str:
        """Return where it stands."""
        return f"{self.page.as_posix().removeprefix(f'{ROOT.as_posix()}/')}:{self.line}"

    @property
    def prompts(self) -> bool:
        """Whether it shows commands behind a prompt, and what they print."""
        return self.language == "text" and self.text.startswith("$ ")


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of *page* in their order.

    A block of ``text`` right behind one of Python is what that prints, and part of it; one that begins with a prompt
    and one with a mark are blocks of their own.
    """
    found: list[tuple[Block, bool]] = []
    for block, between in _fenced(page):
        before = found[-1][0] if found else None
        printed = block.language == "text" and not block.prompts and not block.marks and not between
        if printed and before is not None and before.language in ("python", "sh") and before.shown is None:
            found[-1] = (replace(before, shown=block.text), False)
        else:
            found.append((block, between))
    return [block for block, _ in found]


def _fenced(page: Path) -> Iterator[tuple[Block, bool]]:
    """Yield each block, and whether anything stands between it and the one before."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    marks: dict[str, str] = {}
    at, between = 0, True
    while at < len(lines):
        line = lines[at].strip()
        if line.startswith("```"):
            end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == "```")
            yield Block(page, at + 1, line[3:].strip(), "".join(lines[at + 1 : end]), marks), between
            marks, at, between = {}, end, False
        elif mark := re.fullmatch(rf"<!-- ({'|'.join(MARKS)})\b:? ?(.*) -->", line):
            marks = {**marks, mark[1]: mark[2].strip()}
        elif line:
            marks, between = {}, True
        at += 1


def commands_of(text: str) -> list[tuple[str, str]]:
    """Return what stands behind each prompt of *text*, and the lines below it; backslashes at ends join lines."""
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)\n?((?:(?!\$ ).*\n?)*)", text, re.MULTILINE)
    return [(command.replace("\\\n", " "), printed) for command, printed in found]


def indented_code(page: Path) -> list[int]:
    """Return the lines at which *page* has code by indentation alone, which nobody runs."""
    fenced, before, found, listed = False, "", [], False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            if line and not line.startswith(" "):
                listed = bool(re.match(r"[-*] |\d+\. ", line))
            if line.startswith("    ") and not before.strip() and not listed:
                found.append(number)
        before = line
    return found
