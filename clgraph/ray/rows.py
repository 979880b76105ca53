"""Rows of a batch as a model takes them: stacked by shape, in few sizes, and put back in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clgraph.errors import InputError

Columns = Mapping[str, NDArray[Any]]


def equal_shapes(columns: Columns) -> Iterator[tuple[NDArray[np.intp], dict[str, NDArray[Any]]]]:
    """Yield the numbers of the rows that have equal shapes in all *columns*, and those rows, stacked.

    Raises:
        InputError: Columns have different numbers of rows.
    """
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"columns of one batch have different numbers of rows: {counts}")
    count = next(iter(counts.values()), 0)
    ragged = {name: [np.asarray(row) for row in c] for name, c in columns.items() if c.dtype == object}
    if not ragged:
        yield np.arange(count), dict(columns)
        return
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for row in range(count):
        groups.setdefault(tuple(c[row].shape for c in ragged.values()), []).append(row)
    for group in groups.values():
        chosen = np.array(group)
        yield (
            chosen,
            {
                name: np.stack([ragged[name][row] for row in group]) if name in ragged else column[chosen]
                for name, column in columns.items()
            },
        )


def pieces(count: int, size: int, *, fixed: bool) -> Iterator[tuple[int, int, int]]:
    """Yield first row, end and batch size of each run over *count* rows.

    Batch sizes are *size*, and, unless that is *fixed*, the power of two that the last rows are filled up to: few, so
    that few shapes are bound.
    """
    for start in range(0, count, size):
        end = min(start + size, count)
        yield start, end, size if fixed else min(size, 1 << (end - start - 1).bit_length())


def filled(rows: NDArray[Any], size: int) -> NDArray[Any]:
    """Return *rows*, and the last of them again until there are *size*."""
    missing = size - len(rows)
    return np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows


def in_order(parts: list[tuple[NDArray[np.intp], NDArray[Any]]]) -> NDArray[Any]:
    """Return rows by their numbers; an array of arrays where they have different shapes."""
    if len(parts) == 1:
        return parts[0][1]
    count = sum(len(numbers) for numbers, _ in parts)
    if len({(rows.shape[1:], rows.dtype) for _, rows in parts}) == 1:
        first = parts[0][1]
        found = np.empty((count, *first.shape[1:]), first.dtype)
        for numbers, rows in parts:
            found[numbers] = rows
        return found
    ragged = np.empty(count, object)
    for numbers, rows in parts:
        for number, row in zip(numbers, rows, strict=True):
            ragged[number] = row
    return ragged
