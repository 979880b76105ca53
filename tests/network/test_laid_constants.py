"""Where the constants of programs lie is known to the programs that follow."""

from __future__ import annotations

import numpy as np

from clgraph.core.layout import Layout
from clgraph.graph.node import Value
from clgraph.network.laid_constants import MOST_KNOWN, MOST_OTHERS, KnownPlaces, LaidConstants


def _packed(ways: int, count: int) -> list[list[Value]]:
    """Return so many ways to pack as many constants, each an array of its own."""
    arrays = [[np.full(2, n, np.float32) for n in range(count)] for _ in range(ways)]
    return [[Value(f"w{n}", Layout.of(a), constant=a) for n, a in enumerate(row)] for row in arrays]


def _laid(values: list[Value]) -> LaidConstants:
    arrays = [v.constant for v in values if v.constant is not None]
    return LaidConstants(arrays, 1, places=[(1, 64 * n) for n in range(len(values))])


def test_programs_that_alternate_between_ways_to_pack_find_their_places() -> None:
    known = KnownPlaces()
    one, two = _packed(2, MOST_OTHERS + 1)
    laid = [_laid(one), _laid(two)]
    for each in laid:
        known.add(each)
    for values, its in 2 * [(one, laid[0]), (two, laid[1])]:
        found = known.find(values, 1)
        assert found == (its, {v: (1, 64 * n) for n, v in enumerate(values)})
        assert known.latest is its
    assert known.find(one, 2) is None, "other banks lie in front"


def test_places_are_known_as_long_as_a_program_has_them_and_of_a_few_alone() -> None:
    known = KnownPlaces()
    ways = _packed(MOST_KNOWN + 1, MOST_OTHERS + 1)
    laid = [_laid(values) for values in ways]
    for number in range(len(laid)):
        known.add(laid[number])
    assert known.find(ways[0], 1) is None
    assert known.find(ways[1], 1) is not None
    laid.clear()
    assert known.latest is None
    assert all(known.find(values, 1) is None for values in ways)
