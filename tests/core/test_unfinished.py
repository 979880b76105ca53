"""Imports that are interrupted: what the module has registered is taken back, and the next import registers it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from clgraph.core.registry import Registry
from clgraph.core.unfinished import _unfinished

MODULE = """
import unfinished_tables as tables

def helper():
    tables.TABLE.register("by a function", later())

def later():
    return object()

@tables.TABLE.registers("one")
class One:
    pass

helper()
tables.interrupt()
tables.TABLE.register("two", object())
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[str, object]]:
    """A table, and a module ``unfinished_module`` that fills it."""
    monkeypatch.setattr(Registry, "_all", [])
    tables = ModuleType("unfinished_tables")
    tables.TABLE = found = Registry[str, object]("entry", group=lambda key, entry: "all")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, tables.__name__, tables)
    (tmp_path / "unfinished_module.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield found
    sys.modules.pop("unfinished_module", None)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_a_module_has_registered_goes_with_its_import(
    table: Registry[str, object], error: type[BaseException]
) -> None:
    def interrupt() -> None:
        assert set(table) == {"one", "by a function"}, "while it is imported, what it registered is there"
        assert table.of("all")
        raise error

    sys.modules["unfinished_tables"].interrupt = interrupt  # type: ignore[attr-defined]
    with pytest.raises(error):
        importlib.import_module("unfinished_module")
    assert "one" not in table
    assert table.third_party() == frozenset()

    def go_on() -> None:
        assert sys.modules["unfinished_module"].One in table.of("all"), "and not that of before, as many as there were"

    sys.modules["unfinished_tables"].interrupt = go_on  # type: ignore[attr-defined]
    module = importlib.import_module("unfinished_module")
    assert set(table) == {"one", "two", "by a function"}
    assert table["one"] is module.One
    assert module.One in table.of("all")
    assert not _unfinished


def test_an_import_that_is_interrupted_again_refuses_nothing(table: Registry[str, object]) -> None:
    def interrupt() -> None:
        raise ValueError("too late")

    sys.modules["unfinished_tables"].interrupt = interrupt  # type: ignore[attr-defined]
    for _ in range(3):
        with pytest.raises(ValueError, match="too late"):
            importlib.import_module("unfinished_module")
