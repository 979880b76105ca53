"""The history of a program: its nodes after every pass, read from the folder of a dump."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.errors import ModelError

BUILT = "built"
"""What a dump calls the program before the first pass."""
PLANNED = "planned"
"""What a program is called whose passes are not known."""


@frozen
class Step:
    """The program after one pass.

    Attributes:
        number: Of the pass in the pipeline; -1 for :data:`BUILT`.
        changes: How many the pass says it made; ``seconds`` what it took.
        outline: The program, as :func:`clgraph.graph.outline.outline` writes it.
    """

    number: int
    name: str
    changes: int
    seconds: float
    outline: Mapping[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines that the pass left: what was fused into what, and what was not and why."""
        return tuple(str(self.outline["notes"].get(self.name, "")).splitlines())


@frozen
class History:
    """All steps of one program, in order; ``label`` tells the stages and shapes of one model apart."""

    label: str
    steps: tuple[Step, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every node that there ever was, in one order that the order of nearly every step is a part of.

        A node that a pass has added stands behind the one that it was executed behind when it came.
        """
        after: dict[str | None, str | None] = {None: None}
        for step in self.steps:
            last: str | None = None
            for node in step.outline["nodes"]:
                name = node["name"]
                if name not in after:
                    after[last], after[name] = name, after[last]
                last = name
        return tuple(_walk(after))


def read_histories(folder: Path) -> tuple[History, ...]:
    """Return the histories in *folder* and the folders below it: one a stage of a model, and one a set of shapes.

    Raises:
        ModelError: There is none, or a file of one is damaged.
    """
    begun = sorted(folder.rglob(f"{BUILT}.json"), key=lambda path: (len(path.parts), path.parts))
    if not begun:
        raise ModelError(f"{folder} holds no dump of passes; `clgraph compile MODEL --dump-graphs {folder}` writes one")
    return tuple(_history(path.parent, str(path.parent.relative_to(folder))) for path in begun)


def _history(folder: Path, label: str) -> History:
    steps = [_step(path) for path in folder.glob("*.json")]
    return History("" if label == "." else label, tuple(sorted(steps, key=lambda step: step.number)))


def _step(path: Path) -> Step:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        name = BUILT if data["pass"] < 0 else path.stem.partition("_")[2]
        outline = {key: data[key] for key in _KEYS}
        return Step(data["pass"], name, data.get("changes", 0), data.get("seconds", 0.0), outline)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} is not a dump of a program: {type(error).__name__}: {error}") from error


_KEYS = ("inputs", "constants", "nodes", "outputs", "arenas", "notes")


def _walk(after: Mapping[str | None, str | None]) -> Iterator[str]:
    name = after[None]
    while name is not None:
        yield name
        name = after[name]


def changed(before: Sequence[int | None], now: Iterable[int | None]) -> list[tuple[int, int | None]]:
    """Return (position, new entry) where *now* differs from *before*."""
    return [(at, new) for at, (old, new) in enumerate(zip(before, now, strict=True)) if old != new]
