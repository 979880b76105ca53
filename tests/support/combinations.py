"""Parametrisation by parameters whose every combination is a kernel text: the default run takes few, the slow one all.

PoCL compiles a text in 0.2-2 s. What it is made of is the same for most combinations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from clgraph.core.dtype import DType


def in_both_types(names: str, rows: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrise by *rows* of *names* and by ``dtype``, float32 and float16; float16 is slow but for the first row.

    Only loads and stores are others in float16, so that the first row had better be one with tails.

    Args:
        names: Comma-separated, as for ``pytest.mark.parametrize``.
        rows: Values where there is one name, else tuples of them.
    """
    count = len(names.split(","))
    listed = [row if count > 1 else (row,) for row in rows]
    halves = [pytest.param(*row, DType.F16, marks=pytest.mark.slow if i else []) for i, row in enumerate(listed)]
    return pytest.mark.parametrize(f"{names},dtype", [*((*row, DType.F32) for row in listed), *halves])


def each_value(**parameters: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrise by all combinations of *parameters*; those that :func:`covering` leaves out are slow."""
    values = [list(v) for v in parameters.values()]
    taken = set(covering([len(v) for v in values]))
    rows = [
        pytest.param(*(v[i] for v, i in zip(values, at, strict=True)), marks=[] if at in taken else pytest.mark.slow)
        for at in itertools.product(*(range(len(v)) for v in values))
    ]
    return pytest.mark.parametrize(tuple(parameters), rows)


def ends_of_each(rows: Iterable[Any], key: Callable[[Any], Any]) -> list[Any]:
    """Return *rows* as parameters: the first and last of those beside each other that are the same in *key*.

    Those between are slow: of tiles that are sorted by size, what goes wrong in one goes wrong in the largest or the
    smallest.
    """
    made = []
    for _, group in itertools.groupby(rows, key):
        same = list(group)
        for i, row in enumerate(same):
            values = row if isinstance(row, tuple) else (row,)
            made.append(pytest.param(*values, marks=[] if i in (0, len(same) - 1) else pytest.mark.slow))
    return made


def covering(sizes: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield as many combinations as the largest parameter has values, each value of each parameter at least once.

    The largest runs through its values. Of the others the last changes fastest, so that their combinations recur as
    late as they can.

    Args:
        sizes: How many values each parameter has.
    """
    longest = max(range(len(sizes)), key=lambda p: sizes[p])
    steps = [math.prod(n for q, n in enumerate(sizes) if q > p and q != longest) for p in range(len(sizes))]
    for i in range(sizes[longest]):
        yield tuple(i if p == longest else i // steps[p] % n for p, n in enumerate(sizes))
