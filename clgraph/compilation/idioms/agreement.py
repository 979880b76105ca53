"""How far apart two computations of the same are, by which a spelling is recognised."""

from __future__ import annotations

import numpy as np

from clgraph.graph.primitive import Array

_CLOSE = 1e-4
"""How far apart sums of some hundred products may be that are the same but for their order, of numbers near 1."""


def distance(one: Array, other: Array) -> float | None:
    """Return the largest difference of *one* and *other*; ``None`` where they are not the same."""
    if one.shape != other.shape or not np.allclose(one, other, _CLOSE, _CLOSE):
        return None
    return float(np.abs(one - other).max())
