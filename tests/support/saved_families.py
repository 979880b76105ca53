"""Models with families of shapes, to be kept in files and in the model cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import clgraph
from clgraph.families.notes import NOTE
from tests.support.open_models import convolutions

SHAPES = ((2, 3, 20, 30), (3, 3, 9, 33), (2, 3, 40, 11))


def feed(shape: Sequence[int]) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)}


def results(model: clgraph.Model, shapes: Sequence[Sequence[int]] = SHAPES) -> list[bytes]:
    return [model.run(feed(shape))["y"].tobytes() for shape in shapes]


def note(model: clgraph.Model) -> str:
    """Return how the program that *model* ran last belongs to a family."""
    return model.program.notes.get(NOTE, "")


def used_once(device: str) -> clgraph.Model:
    """Return a model with a family, used for one shape."""
    model = clgraph.compile(convolutions(), device)
    results(model, SHAPES[:1])
    return model


def of_family(change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a change of a file's header that makes *change* of its first family."""

    def forge(header: Any) -> None:
        row = next(row for row in header["families"]["known"] if row[2])
        family = json.loads(row[2])
        change(family)
        row[2] = json.dumps(family)

    return forge
