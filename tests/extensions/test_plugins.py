"""Plugins: one that fails leaves nothing behind and stops nothing."""

import warnings
from importlib.metadata import EntryPoint

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
