"""What is joined to elements of a tensor, by one flat index, is what NumPy joins by all."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.scatter import put

JOINED = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("reduction", JOINED)
def test_updates_are_joined_in_their_order_wherever_they_go(reduction: str, rng: np.random.Generator) -> None:
    rows, columns = np.arange(4)[:, np.newaxis], np.arange(3)
    for places, shape in (
        ((rng.integers(0, 5, (7, 4, 3)), rows, columns), (7, 4, 3)),
        ((rng.integers(0, 5, 6),), (6, 4, 3)),
        ((rng.integers(0, 5, (6, 2)), rng.integers(0, 4, (6, 2))), (6, 2, 3)),
        ((np.zeros((0, 4, 3), np.int64), rows, columns), (0, 4, 3)),
    ):
        x, updates = rng.standard_normal((5, 4, 3)), rng.standard_normal(shape)
        found, wanted = x.copy(), x.copy()
        put(found, places, updates, reduction)
        JOINED[reduction].at(wanted, places, updates)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("reduction", ["none", *JOINED])
def test_places_outside_are_refused(reduction: str) -> None:
    with pytest.raises(IndexError, match="out of"):
        put(np.zeros((5, 4)), (np.array([0, 5]),), np.ones((2, 4)), reduction)
