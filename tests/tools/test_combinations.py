"""Which combinations of parameters the default run takes: each value, and no more than it must."""

from __future__ import annotations

import pytest

from clgraph.core.dtype import DType
from tests.support.combinations import covering, each_value, in_both_types


def test_each_value_of_each_parameter_is_taken_and_combinations_recur_late() -> None:
    assert list(covering([2, 2])) == [(0, 0), (1, 1)]
    assert list(covering([4, 2, 2])) == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]
    assert list(covering([2, 3])) == [(0, 0), (1, 1), (0, 2)]


def test_all_other_combinations_are_slow() -> None:
    names, rows = each_value(a="xyz", b=[1, 2]).args
    assert names == ("a", "b")
    assert [(row.values, bool(row.marks)) for row in rows] == [
        (("x", 1), False),
        (("x", 2), True),
        (("y", 1), True),
        (("y", 2), False),
        (("z", 1), False),
        (("z", 2), True),
    ]


@pytest.mark.parametrize(("names", "rows"), [("a", [1, 2]), ("a,b", [(1, 3), (2, 4)])])
def test_float16_is_slow_but_for_the_first_row(names: str, rows: list[object]) -> None:
    given, made = in_both_types(names, rows).args
    assert given == f"{names},dtype"
    slow = [row for row in made if getattr(row, "marks", ())]
    assert len(made) == 2 * len(rows)
    assert len(slow) == len(rows) - 1
    assert all(row.values[-1] is DType.F16 and row.values[0] == 2 for row in slow)
