"""The list of changes that tests must notice: each can be made, and with ``-m slow`` each is made."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.mutations import Mutation, mutations, stale, tried, working_copy


def test_every_change_can_be_made_and_its_test_is_there() -> None:
    assert stale(mutations()) == []


def test_all_changes_that_cannot_be_made_are_told() -> None:
    """Of a text that is not there, or twice, and of a file or a test that is not."""
    file, test = "tests/tools/test_mutations.py", "test_all_changes_that_cannot_be_made_are_told"
    good = Mutation("good", file, "def " + "copy(", "", f"{file}::{test}[any]")
    bad = [
        replace(good, what="no text", before="def " + "copies("),
        replace(good, what="twice", before="def test_"),
        replace(good, what="no file", file="tests/tools/none.py"),
        replace(good, what="no test", test=f"{file}::{test[:-1]}"),
        replace(good, what="no test's file", test=f"tests/tools/none.py::{test}"),
        replace(good, what="a file", test=file),
    ]
    assert stale([good]) == []
    assert [told.partition(":")[0] for told in stale([good, *bad])] == [m.what for m in bad]


def test_no_name_and_no_change_is_there_twice() -> None:
    listed = mutations()
    for what in ([m.what for m in listed], [(m.file, m.before, m.after) for m in listed]):
        assert [name for name, count in Counter(what).items() if count > 1] == []


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return working_copy(tmp_path_factory.mktemp("mutations"))


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("mutation", mutations(), ids=lambda m: m.what)
def test_the_test_of_a_change_fails_with_it(mutation: Mutation, copy: Path) -> None:
    assert tried(mutation, copy) is None
