"""What makers give: models with inputs, by name, made when they are asked for."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx

Made = tuple[onnx.ModelProto, dict[str, Any]]
"""A model, and what it is run on: arrays, lists of arrays, dictionaries."""

Makers = Mapping[str, Callable[[], Made]]


def write(makers: Makers, folder: Path, names: set[str]) -> Iterator[tuple[str, str]]:
    """Write the models of *names*, of all without any; yield each name, with the reason where it cannot be made."""
    for name, make in makers.items():
        if names and name not in names:
            continue
        try:
            model, feeds = make()
            onnx.save(model, folder / f"{name}.onnx")
            (folder / f"{name}.pickle").write_bytes(pickle.dumps(feeds))
        except Exception as error:  # converters raise of any class
            yield name, f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
        else:
            yield name, ""


def feeds_of(path: Path) -> dict[str, Any]:
    """Return the inputs that were written beside a model."""
    found: dict[str, Any] = pickle.loads(path.with_suffix(".pickle").read_bytes())
    return found
