"""What the base class of operators says of one that leaves something out."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.primitive import Primitive


class Bare(Primitive):
    """Has neither a shape rule nor a reference."""

    kind = "bare"


def test_an_operator_without_a_shape_rule_or_a_reference_is_named() -> None:
    bare = Bare()  # type: ignore[abstract]  # a checker of types says so first
    with pytest.raises(NotImplementedError, match="Bare does not say what layouts its results have"):
        bare.infer([])
    with pytest.raises(NotImplementedError, match="Bare has no reference"):
        bare.reference(np.zeros(1))


def test_shapes_broadcast_as_numpys_do() -> None:
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        shapes = [tuple(rng.choice([0, 1, 1, 3], rng.integers(4)).tolist()) for _ in range(rng.integers(4))]
        try:
            wanted = np.broadcast_shapes(*shapes)
        except ValueError:
            refused += 1
            with pytest.raises(ShapeError, match="do not broadcast"):
                broadcast(*shapes)
        else:
            assert broadcast(*shapes) == wanted
    assert 20 < refused < 280
