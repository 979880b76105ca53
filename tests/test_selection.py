"""Tests that a selection by marks leaves out are not even made; no others. The second worker's first need no device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.ordered import pytest_collection_modifyitems
from tests.support.selected import is_left_out, left_out, pytest_ignore_collect, pytest_pycollect_makeitem


@pytest.mark.parametrize(
    ("expression", "marks"),
    [
        ("not slow", {"slow"}),
        ("(not opencl) and not slow", {"opencl", "slow"}),
        ("slow and not opencl", {"opencl"}),
        ("slow or not opencl", set()),
        ("opencl", set()),
        ("not opencl or not slow", set()),
        ("not slow and not of_another_name", set()),
        ("", set()),
        ("not (slow or opencl)", {"opencl", "slow"}),
        ("not slow(seconds=60)", set()),
        ("not slow or", set()),
        ("not slow opencl()", set()),
    ],
)
def test_a_mark_leaves_out_what_no_other_mark_brings_back(expression: str, marks: set[str]) -> None:
    assert left_out(expression) == marks


def _config(expression: str, *arguments: str) -> Any:
    return SimpleNamespace(option=SimpleNamespace(markexpr=expression), args=arguments)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("pytestmark = pytest.mark.slow", True),
        ("pytestmark = [pytest.mark.slow, pytest.mark.opencl]", True),
        ("pytestmark = [\n    pytest.mark.slow,\n]", True),
        ("pytestmark = pytest.mark.opencl", False),
        ("@pytest.mark.slow", False),
        ("    pytestmark = pytest.mark.slow", False),
    ],
)
def test_a_file_is_left_out_by_a_line_of_its_own(line: str, left: bool, tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(f"import pytest\n{line}\n", encoding="utf-8")
    assert is_left_out(path, frozenset({"slow"})) == left
    assert pytest_ignore_collect(path, _config("not slow")) == (True if left else None)
    # Named ones are said to be deselected.
    assert pytest_ignore_collect(path, _config("not slow", f"{path}::test_x")) is None


def test_functions_are_left_out_by_their_own_marks() -> None:
    @pytest.mark.slow
    def test_slow() -> None: ...

    def test_quick() -> None: ...

    collector: Any = SimpleNamespace(config=_config("not slow"))
    assert pytest_pycollect_makeitem(collector, "test_slow", test_slow) == []
    assert pytest_pycollect_makeitem(collector, "test_quick", test_quick) is None
    assert pytest_pycollect_makeitem(collector, "slow_fixture", test_slow) is None
    collector.config = _config("slow")
    assert pytest_pycollect_makeitem(collector, "test_slow", test_slow) is None


def test_the_second_of_two_workers_begins_with_tests_that_need_no_device() -> None:
    """It would wait for the library of kernels, which the first compiles."""

    def item(name: str) -> Any:
        return SimpleNamespace(name=name, get_closest_marker=lambda mark: name.isupper() and mark == "opencl")

    items = [item(name) for name in "AbCDeFGHiJ"]
    pytest_collection_modifyitems(items)
    assert [i.name for i in items] == [*"ACD", *"bei", *"FGHJ"]
    assert not items[len(items) // 2].get_closest_marker("opencl")
