"""The programs that a file holds, by what they were compiled for, and the libraries that they run in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.core.well_formed import well_formed
from clgraph.errors import ModelError
from clgraph.graph.primitive import primitive_of
from clgraph.graph.program import Program
from clgraph.model.keys import InputValue, Key
from clgraph.model.specialisation import PassRecord
from clgraph.saved.circumstances import differences
from clgraph.saved.container import Contents
from clgraph.saved.programs import decode_program
from clgraph.selector.library import Library
from clgraph.selector.query import DeviceInfo


@frozen
class SavedProgram:
    """A program in a file: the circumstances that it was compiled in, and its text, not read yet."""

    key: Key
    circumstances: Mapping[str, str]
    data: Any

    @property
    def bound(self) -> bool:
        """Whether it was bound as a member of a family."""
        return bool(self.data.get("bound", False))


class SavedPrograms:
    """The programs of a file.

    Attributes:
        asked_for: Keys of what the model was used for, the latest last.
        libraries: By name and SIMD width.
    """

    def __init__(
        self, contents: Contents, here: Mapping[str, str], devices: Mapping[str, DeviceInfo], refusal: str
    ) -> None:
        """Look at what the file says, *here* being the circumstances; *refusal* says why nothing can be used.

        Raises:
            ModelError: The file is damaged.
        """
        self._contents, self._here, self._devices, self._refused = contents, here, devices, refusal
        with well_formed(str(contents.path)):
            header = contents.header
            self._rows = [SavedProgram(_key(p), dict(p["circumstances"]), p) for p in header["programs"]]
            self.asked_for = [_key(p) for p in header.get("asked_for", header["programs"])]
            self.libraries = {name: self._library_of(x) for name, x in header["libraries"].items()}

    def forget(self) -> None:
        """Drop all programs, because one is damaged."""
        self._rows = []

    def __iter__(self) -> Iterator[SavedProgram]:
        return iter(self._rows)

    @property
    def fitting(self) -> list[SavedProgram]:
        """Those of the same circumstances."""
        return [row for row in self if not differences(row.circumstances, self._here)]

    def latest(self, *, bindable: bool) -> Key | None:
        """Return what was asked for last, of what can be run here if there is anything; *bindable*: all of it can."""
        fitting = {row.key for row in self.fitting}
        keys = [key for key in self.asked_for if key in fitting or bindable] or self.asked_for
        return keys[-1] if keys else None

    def refusal(self, row: SavedProgram) -> str:
        """Say why a program cannot be run here as it is; empty for nothing."""
        if why := differences(row.circumstances, self._here) or self._refused:
            return why
        with well_formed(str(self._contents.path)):
            for placement, (nbytes, *_) in row.data["arenas"].items():
                if nbytes > self._devices[placement].max_alloc:
                    return f"{nbytes} bytes of activations take several allocations on {placement}"
        return ""

    def all_differences(self, row: SavedProgram) -> str:
        """Say in what a program's circumstances are not those here, each of them."""
        return differences(row.circumstances, self._here, whole=True)

    def read(self, row: SavedProgram) -> tuple[Program, tuple[PassRecord, ...]]:
        """Return a program, and what passes did to it. Raises ``ModelError`` where the file is damaged."""
        with well_formed(str(self._contents.path)):
            text = self._text(row.data["program"])
            program = decode_program(json.loads(text), self._contents.array, self._devices, primitive_of)
            return program, tuple(PassRecord(*record) for record in row.data["passes"])

    def _library_of(self, row: Any) -> Library:
        name, text, functions, instances = row
        if not all(isinstance(part, str) for part in (name, *functions)):
            raise ModelError("a library of the saved model is not text")
        return Library(name, self._text(text), tuple(functions), int(instances))

    def _text(self, data: Any) -> str:
        """Return a text that is in the header or beside it: the programs of members are not all run."""
        return data if isinstance(data, str) else str(self._contents.array(data).data, "utf-8")


def _key(program: Any) -> Key:
    values = tuple(
        (name, InputValue(dtype, tuple(shape), bytes.fromhex(data))) for name, dtype, shape, data in program["values"]
    )
    return Key(tuple(tuple(shape) for shape in program["shapes"]), values)
