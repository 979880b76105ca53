"""The page that says where each operator runs is that of the present operators and kernels."""

from __future__ import annotations

import pytest

from tests.support.operator_types import listed, operators, rows_of

SAMPLE = 23
"""Every so many operators are tried: all take a minute."""


def test_the_page_lists_all_operators() -> None:
    assert tuple(listed()) == operators(), "tools/operator_types --write"


@pytest.mark.parametrize("operator", ["Add", *tuple(listed())[::SAMPLE]])
def test_what_the_page_says_of_some_operators_is_so(operator: str) -> None:
    assert listed()[operator] == [str(row) for row in rows_of(operator)], "tools/operator_types --write"


@pytest.mark.slow
def test_what_the_page_says_of_all_operators_is_so() -> None:
    found = {name: [str(row) for row in rows_of(name)] for name in operators()}
    assert found == dict(listed()), "tools/operator_types --write"
