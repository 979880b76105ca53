from __future__ import annotations

import importlib.metadata
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint

import pytest

from clgraph.core import registry
from clgraph.core.registry import PLUGIN_FAILURES, Registry, load_plugins
from clgraph.errors import RegistrationError


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
def modules(tmp_path, monkeypatch, table):
    """Write a module that registers what is given under its name; the table imports those that begin with a group."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys.modules[__name__], "filled", table, raising=False)
    names: list[str] = []

    def write(name: str, *keys: str, before: str = "") -> None:
        code = [f"from {__name__} import filled, inside, go", before, *(f"filled.register({k!r}, int)" for k in keys)]
        (tmp_path / f"{name}.py").write_text("\n".join(code), encoding="utf-8")
        names.append(name)

    table._group = lambda key, _: key[0]
    table.found_by(lambda group, room: [name for name in names if group is None or name.endswith(group)])
    yield write
    for name in names:
        sys.modules.pop(name, None)


inside, go = threading.Event(), threading.Event()


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table["a1"],
        lambda table: table.get("a1"),
        lambda table: "a1" in table,
        lambda table: table.of("a"),
    ],
)
def test_a_question_imports_what_it_is_about_and_nothing_else(table, modules, ask) -> None:
    modules("registers_a", "a1", "a2")
    modules("registers_b", "b1")
    assert ask(table)
    assert ("registers_a" in sys.modules, "registers_b" in sys.modules) == (True, False)
    assert ask(table)


@pytest.mark.parametrize("ask", [len, list, lambda table: table.values(), lambda table: table.snapshot()])
def test_a_question_about_all_imports_all(table, modules, ask) -> None:
    modules("registers_a", "a1", "a2")
    modules("registers_b", "b1")
    assert len(list(ask(table))) == 3 if ask is not len else ask(table) == 3


def test_a_group_is_in_order_and_has_what_is_registered_later(table, modules) -> None:
    modules("registers_a", "a2", "a1")
    table.register("a0", str)
    assert table.of("a") == (str, int, int)
    table.register("a3", float)
    table.register("b", bytes)
    assert table.of("a") == (str, int, int, float)
    table.restore({"a1": bool})
    assert (table.of("a"), table.of("b")) == ((bool,), ())


def test_a_module_may_ask_and_is_imported_again_when_it_failed(table, modules) -> None:
    modules("registers_a", "a1", before="assert 'a1' not in filled\nassert go.is_set()")
    go.clear()
    with pytest.raises(AssertionError):
        len(table)
    go.set()
    assert list(table) == ["a1"]


def test_another_thread_waits_until_the_table_is_filled(table, modules) -> None:
    inside.clear()
    go.clear()
    modules("registers_a", "a1", before="inside.set()\nassert go.wait(20)")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(table.of, "a")
        assert inside.wait(20)
        second = pool.submit(table.of, "a")
        go.set()
        assert first.result(20) == second.result(20) == (int,)
