"""Observers of passes: checks, dumps and timing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from clgraph.core import progress
from clgraph.core.frozen import mutable
from clgraph.errors import OptionError, ProgramError
from clgraph.graph.check import check
from clgraph.graph.program import Program
from clgraph.passes.base import Pass


class PassObserver:
    """An observer that does nothing; the base of those that need only one of the two calls."""

    def before(self, number: int, pass_: Pass, program: Program) -> None:
        """Do nothing."""

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Do nothing."""


class Tell(PassObserver):
    """Tells who waits which pass is next, and what each has done."""

    def __init__(self, last: int) -> None:
        """Count up to *last*, the number of the last pass."""
        self._last = last

    def before(self, number: int, pass_: Pass, program: Program) -> None:
        """Tell of the pass."""
        progress.tell("pass", number, self._last, pass_.name)

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Log what the pass has done."""
        what = "pass %02d of %d %s: %d changes in %.1f ms"
        progress.LOG.info(what, number, self._last, pass_.name, changes, seconds * 1e3)


class Verify(PassObserver):
    """Checks every invariant after each pass; a broken one is a ``ProgramError`` that names the pass."""

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Check *program*."""
        try:
            check(program)
        except ProgramError as error:
            raise ProgramError(f"after pass {number:02} {pass_.name}: {error}") from error


class Dump(PassObserver):
    """Writes ``NN_name.txt``, ``.dot`` and ``.json`` into a folder after each pass, and ``built`` before the first."""

    def __init__(self, folder: Path, state: Callable[[Program], Any] | None = None) -> None:
        """Make *folder* where it is missing; what *state* returns is in the JSON, to read the program again by."""
        self.folder, self._state = folder, state
        folder.mkdir(parents=True, exist_ok=True)

    def before(self, number: int, pass_: Pass, program: Program) -> None:
        """Write what the first pass is given as ``built``; raises ``OptionError`` where that cannot be written."""
        if number == 0:
            self._write("built", program, {"pass": -1})

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Write what the pass has made; raises as :meth:`before`."""
        self._write(f"{number:02}_{pass_.name}", program, {"pass": number, "changes": changes, "seconds": seconds})

    def _write(self, name: str, program: Program, about: dict[str, Any]) -> None:
        try:
            self._write_files(name, program, about)
        except OSError as error:
            raise OptionError(f"the programs cannot be written to {self.folder}: {error.strerror or error}") from error

    def _write_files(self, name: str, program: Program, about: dict[str, Any]) -> None:
        # Imported where programs are dumped: pictures and outlines are 2 ms of a start that compiles.
        from clgraph.graph.dot import print_dot
        from clgraph.graph.outline import outline

        (self.folder / f"{name}.txt").write_text(f"{program}\n", encoding="utf-8")
        (self.folder / f"{name}.dot").write_text(f"{print_dot(program)}\n", encoding="utf-8")
        found = {**about, **outline(program)}
        if self._state is not None:
            found["state"] = self._state(program)
        (self.folder / f"{name}.json").write_text(f"{_one_a_line(found)}\n", encoding="utf-8")


def _one_a_line(found: Mapping[str, Any]) -> str:
    """Return JSON with each element of the outer lists on a line; to indent it all takes Python's slow encoder."""
    rows = []
    for key, value in found.items():
        listed = isinstance(value, list) and value
        text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]" if listed else json.dumps(value)
        rows.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(rows) + "\n}"


@mutable
class Time(PassObserver):
    """Keeps (number, name, changes, seconds) of each pass."""

    rows: list[tuple[int, str, int, float]] = field(default_factory=list)

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Keep the pass's row."""
        self.rows.append((number, pass_.name, changes, seconds))
