from __future__ import annotations

import gc
import inspect

import numpy as np

from clgraph.core import memo
from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import (
    MOST_TUPLES,
    Remembering,
    remembered,
    remembered_by,
    remembered_of_arrays,
    remembered_of_tuples,
    remembered_with,
    shared_of_arrays,
)
from tests.support.moments import interrupted

CALLS: list[object] = []


@frozen
class Number(Remembering):
    value: int

    @remembered
    def squared(self) -> int:
        CALLS.append(self.value)
        return self.value**2

    @remembered_with
    def times(self, other: int) -> int:
        CALLS.append((self.value, other))
        return self.value * other


def test_each_value_and_argument_is_computed_once() -> None:
    CALLS.clear()
    two, three = Number(2), Number(3)
    assert [two.squared(), two.squared(), three.squared()] == [4, 4, 9]
    assert [two.times(5), two.times(7), two.times(5), three.times(5)] == [10, 14, 10, 15]
    assert CALLS == [2, 3, (2, 5), (2, 7), (3, 5)]


def test_what_depends_on_a_key_is_computed_once_a_key_and_no_more_are_kept_than_was_asked_for() -> None:
    CALLS.clear()

    @remembered_by(lambda number: number % 10, most=2)
    def last(number: int) -> str:
        CALLS.append(number)
        return f"{number % 10}"

    assert [last(n) for n in (11, 21, 12, 31, 13, 41)] == ["1", "1", "2", "1", "3", "1"]
    assert CALLS == [11, 12, 13, 41]


def test_what_depends_on_a_tuple_is_computed_once_for_each_that_is_there() -> None:
    CALLS.clear()

    @remembered_of_tuples
    def total(numbers: tuple[int, ...]) -> int:
        CALLS.append(numbers)
        return sum(numbers)

    kept, equal = (tuple(range(1, 3)) for _ in range(2))
    assert [total(kept), total(kept), total(equal)] == [3, 3, 3]
    assert len(CALLS) == 2
    CALLS.clear()
    # A tuple that is gone may have left its place in memory to the next.
    assert [total(tuple(range(n, n + 1))) for n in range(2 * MOST_TUPLES)] == list(range(2 * MOST_TUPLES))
    assert total(kept) == 3


def _array(*values: int, fixed: bool = True) -> np.ndarray:
    made = np.array(values)
    made.flags.writeable = not fixed
    return made


def test_what_arrays_determine_is_computed_once_while_they_are_there_and_cannot_change() -> None:
    CALLS.clear()

    @remembered_of_arrays
    def total(one: np.ndarray, other: np.ndarray | None) -> int:
        CALLS.append(len(one))
        return int(one.sum()) + (0 if other is None else int(other.sum()))

    one, other, open_to_all = _array(1, 2), _array(3), _array(4, fixed=False)
    assert [total(one, other), total(one, other), total(one, None), total(one, None)] == [6, 6, 3, 3]
    assert CALLS == [2, 2]
    assert total(one, open_to_all) == 7
    open_to_all[:] = 5
    assert total(one, open_to_all) == 8
    view = open_to_all[:]
    view.flags.writeable = False
    assert total(view, None) == 5
    open_to_all[:] = 6
    assert total(view, None) == 6
    for value in range(50):  # each where the one before it was
        assert total(_array(value), None) == value
    gc.collect()


def test_what_arrays_determined_is_not_found_for_another_where_its_removal_was_interrupted() -> None:
    @remembered_of_arrays
    def total(one: np.ndarray) -> int:
        return int(one.sum())

    lines, start = inspect.getsourcelines(memo.remembered_of_arrays)
    (removal,) = [start + i for i, line in enumerate(lines) if "def forget" in line]
    for value in range(50):
        error = ValueError("too late")
        with interrupted((memo.__file__, removal, removal + 1), error) as told:
            assert total(_array(value)) == value
        assert told.dropped


def test_what_is_made_of_arrays_is_one_array_while_it_is_used() -> None:
    CALLS.clear()

    @shared_of_arrays
    def doubled(x: np.ndarray) -> np.ndarray:
        CALLS.append(len(x))
        return x * 2

    one = _array(1, 2)
    two = doubled(one)
    assert doubled(one) is two
    del two
    gc.collect()
    assert doubled(one).tolist() == [2, 4]
    assert CALLS == [2, 2]
    open_to_all = _array(1, fixed=False)
    kept = doubled(open_to_all)
    open_to_all[:] = 5
    assert (kept.tolist(), doubled(open_to_all).tolist()) == ([2], [10])
    for value in range(50):
        assert doubled(_array(value)).tolist() == [2 * value]


def test_what_is_remembered_does_not_make_equal_values_differ() -> None:
    two = Number(2)
    two.squared()
    assert two == Number(2)
    assert hash(two) == hash(Number(2))


def test_a_layout_is_the_same_object_in_a_format_that_was_asked_for_before() -> None:
    layout = Layout(DType.F32, (1, 32, 8, 8))
    blocked = layout.with_format(feature_blocked(4))
    assert layout.with_format(feature_blocked(4)) is blocked
    assert blocked.with_format(Format.plain(4)) == layout
    assert blocked.plain() is blocked.plain() == layout


def test_a_layout_that_is_what_was_asked_for_does_not_keep_itself_alive() -> None:
    layout = Layout(DType.F32, (1, 32, 8, 8), feature_blocked(4))
    assert layout.with_format(feature_blocked(4)) is layout
    assert layout._memo is None
    plain = Layout(DType.F32, (1, 32, 8, 8))
    assert plain.plain() is plain
    assert plain._memo is None
