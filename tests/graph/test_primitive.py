"""What the base class of operators says of one that leaves something out."""

from __future__ import annotations

import numpy as np
import pytest

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
