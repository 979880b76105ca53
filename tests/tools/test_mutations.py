"""The list of changes that tests must notice: each can be made, and with ``-m slow`` each is made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.mutations import ROOT, Mutation, mutations, tried, working_copy


def test_every_change_can_be_made_and_its_test_is_there() -> None:
    for m in mutations():
        assert (ROOT / m.file).read_text(encoding="utf-8").count(m.before) == 1, m.what
        file, _, test = m.test.partition("::")
        assert f"def {test.partition('[')[0].rpartition('::')[2]}(" in (ROOT / file).read_text(encoding="utf-8"), m.what


def test_no_name_and_no_change_is_there_twice() -> None:
    for what in ([m.what for m in mutations()], [(m.file, m.before, m.after) for m in mutations()]):
        assert [name for name, count in Counter(what).items() if count > 1] == []


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return working_copy(tmp_path_factory.mktemp("mutations"))


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("mutation", mutations(), ids=lambda m: m.what)
def test_the_test_of_a_change_fails_with_it(mutation: Mutation, copy: Path) -> None:
    assert tried(mutation, copy) is None
