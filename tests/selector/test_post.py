"""How fused operations become the list that tiles walk."""

from __future__ import annotations

import numpy as np

from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.selector.post import post_codes, post_steps
from clgraph.selector.query import DeviceInfo, Query


def steps(*functions: Activation) -> list[tuple[int, float, float]]:
    x, w = (Layout.of(np.zeros(s, np.float32)) for s in ((1, 4, 5, 5), (4, 4, 1, 1)))
    primitive = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    fused = tuple(Fused(f) for f in functions)
    q = Query(primitive, (x, w), (x,), DeviceInfo(), 2, fused, frozenset({1}))
    return [(s.code, s.a, s.b) for s in post_steps(q, lambda layout: (0, 0, 0, 0, 0))]


def linear(a: float, b: float) -> Activation:
    return Activation("linear", a, b)


def test_multiplications_and_additions_of_constants_in_a_row_are_one_step() -> None:
    code = post_codes()["linear"]
    # ((x * 2 + 3) * 5 + 7) * 0.5 + 1 = 5 x + 12
    assert steps(linear(2, 3), linear(5, 7), linear(0.5, 1)) == [(code, 5.0, 12.0)]


def test_what_stands_between_keeps_them_apart() -> None:
    found = steps(linear(2, 3), Activation("relu"), linear(5, 7))
    assert [c for c, _, _ in found] == [post_codes()[n] for n in ("linear", "relu", "linear")]


def test_products_that_float32_does_not_hold_stay_apart() -> None:
    for pair in (
        (linear(1e30, 0), linear(1e30, 0)),
        (linear(1e-30, 0), linear(1e-30, 0)),
        (linear(1, 1e38), linear(10, 0)),
    ):
        assert len(steps(*pair)) == 2
    assert len(steps(linear(0, 0), linear(1e30, 0))) == 1
