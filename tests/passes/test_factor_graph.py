from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clgraph.passes import factor_graph
from clgraph.passes.factor_graph import Factor, minimise, total


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=7))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    factors = []
    for _ in range(draw(st.integers(0, 12))):
        count = draw(st.integers(1, min(3, len(sizes))))
        scope = tuple(int(v) for v in random.permutation(len(sizes))[:count])
        table = random.integers(0, 50, [sizes[v] for v in scope]).astype(float)
        table[random.random(table.shape) < 0.1] = np.inf
        factors.append(Factor(scope, table))
    return sizes, factors


@given(problems())
@settings(max_examples=200, deadline=None)
def test_the_minimum_is_that_of_all_combinations(problem) -> None:
    sizes, factors = problem
    found = minimise(sizes, factors, [0] * len(sizes))
    best = min(total(factors, values) for values in product(*map(range, sizes)))
    assert found.exact
    assert found.cost == best == total(factors, found.values)


@given(problems(), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_a_graph_too_wide_gives_a_valid_answer_no_worse_than_its_start(problem, limit) -> None:
    sizes, factors = problem
    before = factor_graph.LIMIT
    factor_graph.LIMIT = limit
    try:
        found = minimise(sizes, factors, [0] * len(sizes))
    finally:
        factor_graph.LIMIT = before
    assert all(0 <= v < n for v, n in zip(found.values, sizes, strict=True))
    assert found.cost <= total(factors, [0] * len(sizes))


def test_a_long_chain_is_exact() -> None:
    count = 300
    switch = np.array([[0.0, 5.0], [5.0, 0.0]])
    likes = [Factor((i,), np.array([0.0, 3.0] if i < 150 else [4.0, 0.0])) for i in range(count)]
    links = [Factor((i, i + 1), switch) for i in range(count - 1)]
    found = minimise([2] * count, [*likes, *links], [0] * count)
    assert found.values == (0,) * 150 + (1,) * 150
    assert found.cost == pytest.approx(5.0)
