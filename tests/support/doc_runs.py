"""What a reader does with a page: its blocks in their order, in one folder and one Python session."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clgraph.cli import main
from tests.support.doc_blocks import ROOT, Block, commands_of
from tests.support.fetched import MODEL_CACHE, keep_models

PIP = f"""#!{sys.executable}
import re, sys, tomllib
project = tomllib.loads(open({str(ROOT / "pyproject.toml")!r}, encoding="utf-8").read())["project"]
known = set(project["optional-dependencies"])
asked = {{e for a in sys.argv for group in re.findall(r"\\[(.*)\\]", a) for e in group.split(",")}}
sys.exit(f"no extra is called {{asked - known}}" if asked - known else 0)
"""
"""Stands for pip: what it installs is there; the extras that a page names are looked for."""

PLAIN = re.compile(r"(clgraph [^|<>;&$~*`\\]+?)(?: > ([\w.]+))?")
"""A command that needs no shell, and the file that takes what it prints: it is run in this process, which spares it
seconds."""

ALONE = re.compile(r"(cat|clgraph|pip|python) .*[^\\]")
"""A line that changes nothing of the shell for the next ones."""


class Reader:
    """Runs blocks: Python in *names*, commands by bash in the present folder."""

    def __init__(self, tools: Path, names: Mapping[str, Any], replaced: Mapping[str, str]) -> None:
        """Begin a page.

        Args:
            tools: An empty folder, for the programs that a shell is to find first.
            names: What earlier parts of the reader's program have made.
            replaced: Parts of commands and code that are other ones here, such as ports.
        """
        self.names = dict(names)
        self.replaced = replaced
        self.serving: list[subprocess.Popen[str]] = []
        run = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from clgraph.cli import main; sys.exit(main())"
        _program(tools / "clgraph", f'#!/bin/sh\nexec "{sys.executable}" -c "{run}" "$@"\n')
        _program(tools / "python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        _program(tools / "pip", PIP)
        paths = (str(ROOT), os.environ.get("PYTHONPATH", ""))
        self.environment = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(p for p in paths if p),
            "COLUMNS": "120",
        }

    def read(self, block: Block) -> None:
        """Do what *block* says, and compare what it shows."""
        text = block.text
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        if "file" in block.marks:
            Path(block.marks["file"]).parent.mkdir(parents=True, exist_ok=True)
            Path(block.marks["file"]).write_text(text, encoding="utf-8")
        elif block.language == "python":
            printed = self._python(block, text)
            assert block.shown in (None, printed) or "not compared" in block.marks, f"{block} prints\n{printed}"
        elif block.prompts:
            *before, last = commands_of(text)
            for command, shown in (*before, last):
                printed = self._shell(block, command, int(block.marks.get("status", 0)) if command is last[0] else 0)
                if "not compared" not in block.marks:
                    assert _alike(_outline(printed), _outline(shown)), f"{block} prints\n{printed}"
        else:
            self._shell(block, text, int(block.marks.get("status", 0)))

    def _python(self, block: Block, text: str) -> str:
        code = compile(text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(io.StringIO()) as printed, _keeping(text):
            ended = eval(code, self.names)
            if inspect.iscoroutine(ended):
                asyncio.run(ended)
        return printed.getvalue()

    def _shell(self, block: Block, text: str, status: int) -> str:
        """Return what *text* prints, which is to end with *status*."""
        if "until the page ends" in block.marks:
            self._serve(text, block.marks["until the page ends"])
            return ""
        lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
        if len(lines) > 1 and all(map(ALONE.fullmatch, lines)):
            return "".join(self._shell(block, line, status) for line in lines)
        if len(lines) == 1 and "--module" not in text and (plain := PLAIN.fullmatch(lines[0])):
            return _here(block, shlex.split(plain[1]), status, plain[2])
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", text],
            capture_output=True,
            text=True,
            check=False,
            env=self.environment | ({"CLGRAPH_MODEL_CACHE": str(MODEL_CACHE)} if _reads(text) else {}),
            timeout=300,
        )
        assert done.returncode == status, f"{block}\n{text}{done.stdout}{done.stderr}"
        return done.stdout

    def _serve(self, text: str, said: str) -> None:
        """Start the last line of *text*, and return when it has *said* that."""
        *before, last = text.strip().splitlines()
        subprocess.run(["bash", "-ec", "\n".join(before)], check=True, env=self.environment)
        served = subprocess.Popen(
            ["bash", "-c", f"exec {last}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
        )
        self.serving.append(served)
        assert served.stdout is not None
        seen = ""
        for line in served.stdout:
            seen += line
            if said in line:
                return
        raise AssertionError(f"{last} ended:\n{seen}")

    def close(self) -> None:
        """End what serves."""
        for served in self.serving:
            served.terminate()
            assert served.wait(60) == 0
            assert served.stdout is not None
            served.stdout.close()


def _reads(text: str) -> bool:
    """Whether a command or code has the demo's networks, which are compiled once for all pages."""
    return re.search(r"clgraph demo|fetch_model\(", text) is not None


@contextlib.contextmanager
def _keeping(text: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if _reads(text):
            keep_models(patch)
        yield


def _here(block: Block, words: list[str], status: int, into: str | None) -> str:
    """Return what a command of clgraph prints, or write it *into* a file; it is to end with *status*."""
    given = sys.argv
    sys.argv = words
    ended = None
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as err,
            _keeping(shlex.join(words)),
        ):
            main()
    except SystemExit as caught:
        ended = caught.code or 0
    finally:
        sys.argv = given
    assert ended == status, f"{block}\n{shlex.join(words)}\n{out.getvalue()}{err.getvalue()}"
    if into is None:
        return out.getvalue()
    Path(into).write_text(out.getvalue(), encoding="utf-8")
    return ""


def _program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _outline(printed: str) -> list[str]:
    """Return the first word of every line, sorted: figures, and the order that they decide, differ by machine."""
    return sorted(line.split()[0] for line in printed.splitlines() if line.strip())


def _alike(printed: list[str], shown: list[str]) -> bool:
    """Return whether a page shows what is printed, or a part of it and dots for the rest."""
    return printed == shown if "..." not in shown else not Counter(shown) - Counter(["...", *printed])


def opened(tools: Path, names: Mapping[str, Any], replaced: Mapping[str, str]) -> Iterator[Reader]:
    """Yield a reader, and end what it has started."""
    reader = Reader(tools, names, replaced)
    try:
        yield reader
    finally:
        reader.close()


def runnable(block: Block) -> bool:
    """Return whether a reader types *block*, or copies it to a file."""
    if {"from", "edit", "not run"} & set(block.marks):
        return False
    return block.language in ("python", "sh") or block.prompts or "file" in block.marks


def accounted(block: Block) -> bool:
    """Return whether something runs *block*, quotes it, draws it, or says why not."""
    marked = {"from", "edit", "not run", "file"} & set(block.marks)
    return bool(marked) or runnable(block) or re.match(r"\{[\w:-]+\}", block.language) is not None
