from __future__ import annotations

from typing import Any, Literal

import pytest

from clgraph.core.dtype import DType
from clgraph.errors import ModelError
from clgraph.graph.primitive import PRIMITIVES
from clgraph.graph.typed import _hints, check_fields, fits


@pytest.mark.parametrize(
    ("hint", "right", "wrong"),
    [
        (int, [0, -1], [True, 1.0, "1", None]),
        (float, [0, 0.5], [True, "0.5", None]),
        (bool, [True], [1, None]),
        (str, ["", "x"], [1, None, ["x"]]),
        (int | None, [None, 3], ["3", 3.0]),
        (Literal["post", "pre"], ["pre"], ["post ", 1, None]),
        (tuple[int, ...], [(), (1, 2), [1]], [(1, "2"), (1.0,), 1, "12", None]),
        (tuple[str, int], [("a", 1)], [("a",), ("a", 1, 2), (1, "a")]),
        (tuple[tuple[int, int], ...], [((1, 2),)], [((1,),), (1, 2)]),
        (list[str], [["a"]], [["a", 1], "ab", {"a": 1}]),
        (list, [["a"], ("a", 1), []], ["ab", {"a": 1}, None]),
        (tuple, [("a", 1), ["a"]], ["ab", 1]),
        (dict[str, str], [{}, {"a": "b"}], [{"a": 1}, [], "ab"]),
        (frozenset[str], [frozenset("ab")], [frozenset([1]), {"a"}]),
        (DType, [DType.F32], ["F32", None]),
        (Any, [None, 1, "x"], []),
        (None, [None], [0, ""]),
    ],
)
def test_a_value_fits_what_is_declared_and_nothing_else(hint: Any, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if not fits(value, hint)] == []
    assert [value for value in wrong if fits(value, hint)] == []


def test_the_types_of_every_primitives_fields_are_known() -> None:
    assert all(_hints(kind) for kind in PRIMITIVES.values() if getattr(kind, "__dataclass_fields__", None))


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ModelError, match=r"Softmax\.axes is \('x',\), and should be tuple\[int"):
        check_fields(PRIMITIVES["softmax"], {"axes": ("x",)})
