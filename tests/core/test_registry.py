from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from clgraph.core.registry import Registry, third_party
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


def test_what_others_register_is_noticed_as_long_as_it_is_there(table) -> None:
    table.register("ours", Registry)
    saved = table.snapshot()
    assert not table.third_party()
    table.register("theirs", EntryPoint)
    table.register("folder", Path("."))
    assert table.third_party() == {"importlib", "pathlib"} <= third_party()
    table.restore(saved)
    assert not table.third_party()


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
    table.found_by(lambda group, part: [name for name in names if group is None or name.endswith(group)])
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


def test_for_one_entry_the_module_called_like_it_is_imported_first(table, modules) -> None:
    modules("another_a", "a.other_a")
    modules("a_one_a", "a.one_a")
    assert table.at("a.one_a", "part") is int
    assert ("another_a" in sys.modules, "a_one_a" in sys.modules) == (False, True)
    assert table.at("a.other_a", "part") is int
    assert table.of("a") == (int, int)
    with pytest.raises(KeyError):
        table.at("a.none", "part")


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


def test_a_table_is_found_by_what_its_home_says_when_it_is_imported(tmp_path, monkeypatch) -> None:
    told = "import homely_things as here\nfrom clgraph.core.registry import Registry\n"
    (tmp_path / "homely_things.py").write_text("TABLE = None\nASKED = []\n")
    (tmp_path / "homely_home.py").write_text(
        f"{told}here.TABLE.found_by(lambda group, part: here.ASKED.append(group) or ['homely_entries'])\n"
    )
    (tmp_path / "homely_entries.py").write_text("import homely_things as here\nhere.TABLE.register('a', int)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import homely_things as here

    here.TABLE = table = Registry("thing", package="homely_home")
    try:
        assert "homely_home" not in sys.modules
        assert (table["a"], table.at("a", "part"), here.ASKED) == (int, int, ["a"])
    finally:
        Registry._all.remove(table)
        for name in ("homely_things", "homely_home", "homely_entries"):
            sys.modules.pop(name, None)
