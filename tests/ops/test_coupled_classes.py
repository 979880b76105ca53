"""Probabilities of classes from those of pairs: number by number for few rows, all rows at once for many."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.support_vector_classifier import coupled


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_row_alone_has_the_probabilities_that_it_has_among_many(classes: int) -> None:
    first = np.random.default_rng(classes).uniform(0.01, 0.99, size=(200, classes, classes))
    against = np.triu(first, 1)
    against += np.tril(1 - against.transpose(0, 2, 1), -1)
    wanted = coupled(against)
    # Sums of products in another order, through at most 100 steps that shrink errors.
    np.testing.assert_allclose(np.concatenate([coupled(row[None]) for row in against]), wanted, rtol=0, atol=1e-13)
    np.testing.assert_allclose(wanted.sum(1), 1, rtol=1e-12)
    assert coupled(against[:0]).shape == (0, classes)
