"""Plugins: one that fails leaves nothing behind and stops nothing."""

import sys
import warnings
from importlib import invalidate_caches
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from clgraph.core.registry import Registry
from clgraph.errors import OptionError
from clgraph.extensions import plugins
from clgraph.extensions.plugins import import_plugins


@pytest.fixture
def table():
    made: Registry[str, type] = Registry("thing")
    yield made
    Registry._all.remove(made)


def test_a_plugin_that_fails_is_rolled_back_and_the_others_load(table, monkeypatch) -> None:
    class Point(EntryPoint):
        def load(self):
            table.register(self.name, int)
            if self.name == "bad":
                raise RuntimeError("no such luck")

    points = [Point(n, "some.module", plugins.PLUGIN_GROUP) for n in ("worse", "bad", "good")]
    monkeypatch.setattr(plugins, "PLUGIN_FAILURES", failures := [])
    with pytest.warns(UserWarning, match=r"plugin bad \(some.module\): RuntimeError: no such luck"):
        import_plugins("all", points)
    assert list(table) == ["good", "worse"]
    assert failures == ["bad (some.module): RuntimeError: no such luck"]
    table.restore({})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        import_plugins("good", points)
        import_plugins("none", points)
    assert list(table) == ["good"]
    with pytest.raises(OptionError, match="no plugin is called 'best'; there are: worse, bad, good"):
        import_plugins("best", points)


@pytest.mark.parametrize("name", ["a_plugin-1.0.dist-info", "a_plugin.egg-info"])
def test_a_package_that_declares_plugins_is_found_where_python_looks(name, tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    before = [point.name for point in plugins._installed()]
    package = tmp_path / name
    package.mkdir()
    (package / "METADATA").write_text("Name: a-plugin\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{plugins.PLUGIN_GROUP}]\nmine = a.module\n")
    invalidate_caches()
    assert [point.name for point in plugins._installed()] == sorted([*before, "mine"])


def test_packages_in_archives_and_of_other_finders_are_asked(tmp_path, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: asked.append(group) or [])
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "missing")])
    assert plugins._installed() == asked == []
    (archive := tmp_path / "all.zip").write_bytes(b"PK")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(archive)])
    plugins._installed()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_distributions=None)])
    plugins._installed()
    assert asked == [plugins.PLUGIN_GROUP] * 2
