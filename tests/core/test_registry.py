from __future__ import annotations

import importlib.metadata
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint

import pytest

from clgraph.core import registry
from clgraph.core.registry import PLUGIN_FAILURES, Registry, complete_by, load_plugins
from clgraph.errors import RegistrationError
from clgraph.graph.primitive import PRIMITIVES


@pytest.fixture
def table():
    made: Registry[str, type] = Registry("thing")
    yield made
    Registry._all.remove(made)


def test_a_key_is_claimed_once_and_the_error_names_both(table) -> None:
    @table.registers("a")
    class First:
        pass

    with pytest.raises(RegistrationError, match=r"thing 'a' is already .*First.*; .*int cannot replace it"):
        table.register("a", int)
    assert table["a"] is First
    assert (table.get("b"), "a" in table, len(table)) == (None, True, 1)


def test_entries_come_in_order_of_their_keys(table) -> None:
    for key in "cab":
        table.register(key, type(key, (), {}))
    assert list(table) == ["a", "b", "c"]
    assert [t.__name__ for t in table.values()] == ["a", "b", "c"]


def test_what_is_there_can_be_had_without_filling_the_table(table, monkeypatch) -> None:
    monkeypatch.setattr(Registry, "_fill", [lambda: pytest.fail("it was filled")])
    for key in "cab":
        table.register(key, type(key, (), {}))
    assert list(table.present()) == ["a", "b", "c"]


def test_a_snapshot_restores(table) -> None:
    table.register("a", int)
    saved = table.snapshot()
    table.register("b", float)
    table.restore(saved)
    assert list(table) == ["a"]


def test_a_plugin_that_fails_is_rolled_back_and_the_others_load(table, monkeypatch) -> None:
    class Point(EntryPoint):
        def load(self):
            table.register(self.name, int)
            if self.name == "bad":
                raise RuntimeError("no such luck")

    points = [Point(n, "some.module", registry.PLUGIN_GROUP) for n in ("worse", "bad", "good")]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    monkeypatch.setattr(registry, "_may_have_plugins", lambda: True)
    load_plugins.cache_clear()
    try:
        with pytest.warns(UserWarning, match=r"plugin bad \(some.module\): RuntimeError: no such luck"):
            load_plugins()
        assert list(table) == ["good", "worse"]
        assert "bad" in PLUGIN_FAILURES[-1]
        load_plugins.cache_clear()
        table.restore({})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load_plugins("good")
            load_plugins("none")
        assert list(table) == ["good"]
    finally:
        load_plugins.cache_clear()
        PLUGIN_FAILURES[:] = [f for f in PLUGIN_FAILURES if "no such luck" not in f]


@pytest.mark.parametrize("home", ["p-1.0.dist-info", "p.egg-info", "EGG-INFO"])
def test_a_plugin_on_the_path_is_looked_for(tmp_path, monkeypatch, home) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.setattr(sys, "path", [str(tmp_path / "absent"), str(tmp_path)])
    declared = tmp_path / home / "entry_points.txt"
    declared.parent.mkdir()
    assert not registry._may_have_plugins()
    declared.write_text("[console_scripts]\np = p:main\n", encoding="utf-8")
    assert not registry._may_have_plugins()
    declared.write_text("[clgraph.plugins]\np = p\n", encoding="utf-8")
    assert registry._may_have_plugins()


def test_plugins_may_be_where_only_their_finder_sees_them(tmp_path, monkeypatch) -> None:
    class Finder:
        def find_distributions(self, context):
            return []

    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [Finder()])
    assert registry._may_have_plugins()
    monkeypatch.setattr(sys, "meta_path", [])
    archive = tmp_path / "a.zip"
    archive.touch()
    monkeypatch.setattr(sys, "path", [str(archive)])
    assert registry._may_have_plugins()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list:
    """What waits to fill the registries: nothing but what a test adds."""
    len(PRIMITIVES)  # what waits in earnest is done
    found: list = []
    monkeypatch.setattr(Registry, "_fill", found)
    return found


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table["a"],
        lambda table: table.get("a"),
        lambda table: "a" in table,
        len,
        list,
        lambda table: table.values(),
        lambda table: table.snapshot(),
    ],
)
def test_a_table_is_filled_before_the_first_question_that_needs_it_and_once(table, waiting, ask) -> None:
    calls = []
    complete_by(lambda: calls.append(table.register("a", int)))
    table.register("b", str)
    assert (table["b"], table.get("b"), "b" in table, calls) == (str, str, True, [])
    assert ask(table)
    assert ask(table)
    assert calls == [int]


def test_what_fills_may_ask_and_is_asked_again_when_it_fails(table, waiting) -> None:
    answers = iter([ImportError("broken"), None])

    def fill() -> None:
        assert "a" not in table
        if (error := next(answers)) is not None:
            raise error
        table.register("a", int)

    complete_by(fill)
    with pytest.raises(ImportError, match="broken"):
        len(table)
    assert list(table) == ["a"]


def test_another_thread_waits_until_the_tables_are_filled(table, waiting) -> None:
    inside, go = threading.Event(), threading.Event()

    def fill() -> None:
        inside.set()
        assert go.wait(20)
        table.register("a", int)

    complete_by(fill)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(list, table)
        assert inside.wait(20)
        second = pool.submit(list, table)
        go.set()
        assert first.result(20) == second.result(20) == ["a"]
