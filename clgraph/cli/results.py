"""Results of a run, printed and written: statistics, the largest values with their labels, arrays and pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clgraph.cli.output import say, table
from clgraph.errors import InputError
from clgraph.graph.host_types import has_strings, kind_of
from clgraph.graph.primitive import Array

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff")


def show_outputs(results: Mapping[str, Any]) -> None:
    """Print type, shape and range of every array, and what else a result is; the first few of strings and sequences."""
    if numbers := [_row(name, a) for name, a in results.items() if _has_numbers(a)]:
        table(("output", "type", "shape", "min", "mean", "max"), numbers)
    others = [(name, *_described(value)) for name, value in results.items() if not _has_numbers(value)]
    if others:
        table(("output", "kind", "size", "value"), others)


def figures_of(results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return type, shape and range of every array, by name; kind and size of what else a result is."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in results.items():
        if not _has_numbers(value):
            found[name] = dict(zip(("kind", "size", "value"), _described(value), strict=True))
            continue
        values = value.astype(np.float64)
        found[name] = {"dtype": str(value.dtype), "shape": list(value.shape)}
        if value.size:
            found[name] |= {"min": float(values.min()), "mean": float(values.mean()), "max": float(values.max())}
    return found


def show_largest(results: Mapping[str, Any], count: int, labels: Sequence[str]) -> None:
    """Print the *count* largest values of each array [classes] or [batch][classes], with their labels.

    Axes of one element do not count, and other arrays are left out.

    Raises:
        InputError: No array is of that kind, with as many classes as there are labels.
    """
    rows = []
    for name, array in results.items():
        if not _has_numbers(array):
            continue
        classes = array.reshape([size for size in array.shape if size != 1] or [1])
        if classes.ndim > 2 or classes.shape[-1] < 2 or (labels and classes.shape[-1] != len(labels)):
            continue
        batch = classes.reshape(-1, classes.shape[-1])
        for i, values in enumerate(batch):
            best = np.argsort(-values.astype(np.float64), kind="stable")[:count]
            where = name if len(batch) == 1 else f"{name}[{i}]"
            rows += [(where, int(c), f"{values[c]:.6g}", labels[c] if labels else "") for c in best]
    if not rows:
        if labels:
            raise InputError(f"there are {len(labels)} labels, but no output has {len(labels)} classes")
        raise InputError("no output has classes: one value each, alone or in a batch")
    say()
    table(("output", "class", "value", "label"), rows)


def read_labels(path: Path) -> list[str]:
    """Return the lines of a text file. Raises ``InputError`` when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text") from error


def save_folder(results: Mapping[str, Any], folder: Path) -> dict[str, Path]:
    """Write each array to a file called like its output, as far as file names allow; return the paths by name.

    Raises:
        InputError: The folder cannot be written, or a result is not an array.
    """
    paths: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in results.items():
            stem = re.sub(r"[^\w.-]+", "_", name)[:100].strip(".") or "output"
            path, n = folder / f"{stem}.npy", 1
            while path in paths.values():
                n += 1
                path = folder / f"{stem}_{n}.npy"
            np.save(path, _plain(array, name))
            paths[name] = path
    except OSError as error:
        raise InputError(f"the outputs cannot be written to {folder}: {error.strerror or error}") from error
    return paths


def save_output(results: Mapping[str, Any], text: str) -> str:
    """Write what ``[NAME=]FILE`` says: all arrays to an .npz file, one to .npy or as a picture; return it in words.

    Raises:
        InputError: There is no such output, it is not an array or no picture, or the file cannot be written.
    """
    name, equals, file = text.rpartition("=")
    path = Path(file)
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".npy", *PICTURES):
        raise InputError(f"{path} is not one of .npy, .npz, {', '.join(PICTURES)}")
    if equals and name not in results:
        raise InputError(f"no output is called {name!r}; the outputs are {', '.join(map(repr, results))}")
    if not equals and suffix != ".npz":
        if len(results) != 1:
            raise InputError(f"{path} holds one output; say which: NAME={path}, of {', '.join(map(repr, results))}")
        (name,) = results
    chosen = {n: _plain(results[n], n) for n in ([name] if name else results)}
    how = ""
    try:
        if suffix == ".npz":
            with path.open("wb") as file_object:
                np.savez(file_object, **chosen)  # type: ignore[arg-type]  # names are no keywords of savez
        elif suffix == ".npy":
            np.save(path, chosen[name])
        else:
            # Pillow takes a while to import, and most runs write no picture.
            from clgraph.cli.picture_results import as_picture

            picture, how = as_picture(chosen[name], name)
            picture.save(path)
    except OSError as error:
        raise InputError(f"the output cannot be written to {path}: {error.strerror or error}") from error
    return f"{', '.join(chosen)} -> {path}{how}"


def _plain(value: Any, name: str) -> Array:
    """Return a result as a file holds it, strings as Unicode; raises ``InputError`` for what is not an array."""
    if has_strings(value):
        return np.asarray(value, str)
    if not isinstance(value, np.ndarray):
        raise InputError(f"output {name!r} is {kind_of(value)}, which no file of arrays holds: run the model in Python")
    return value


def _has_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not has_strings(value)


def _described(value: Any) -> tuple[str, str, str]:
    """Return the type, the size and the beginning of a result that is not an array of numbers."""
    if has_strings(value):
        return "strings", "x".join(map(str, value.shape)) or "scalar", f"{', '.join(map(repr, value.ravel()[:8])):.60}"
    size = "" if value is None else str(len(value))
    return kind_of(value).removeprefix("a "), size, f"{value!r:.60}".replace("\n", " ")


def _row(name: str, array: Array) -> tuple[object, ...]:
    return name, array.dtype, "x".join(map(str, array.shape)) or "scalar", *_figures(array)


def _figures(array: Array) -> tuple[str, ...]:
    if not array.size:
        return ("", "", "")
    values = array.astype(np.float64)
    return tuple(f"{v:.6g}" for v in (values.min(), values.mean(), values.max()))
