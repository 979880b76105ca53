"""Plugins and modules of users, which register what they bring when they are imported."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.core.registry import rolled_back
from clgraph.core.warn import warn
from clgraph.errors import OptionError, RegistrationError
from clgraph.handlers import pass_on

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PLUGIN_GROUP = "clgraph.plugins"
PLUGIN_FAILURES: list[str] = []


@functools.cache
def load_module(name: str) -> None:
    """Import, once, the module called *name* or the Python file at that path, which registers operators of a user.

    Raises:
        RegistrationError: It cannot be imported; what it had registered is taken back.
    """
    try:
        with rolled_back():
            if name.endswith(".py"):
                # Imported for files alone: with what it imports it takes a millisecond.
                import runpy

                runpy.run_path(str(Path(name).expanduser()))
            else:
                importlib.import_module(name)
    except Exception as error:  # a user's module may raise anything
        raise RegistrationError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


@functools.cache
def load_plugins(names: str = "all") -> None:
    """Import, once, what :func:`import_plugins` imports of the installed plugins.

    Raises:
        OptionError: No plugin has a name that is listed.
    """
    import_plugins(names, [] if names == "none" else _installed())


def import_plugins(names: str, points: Sequence[EntryPoint]) -> None:
    """Import the modules of *points*, which are declared under the entry-point group ``clgraph.plugins``.

    A plugin that fails is rolled back, kept in ``PLUGIN_FAILURES`` and warned about; the others still load. ``"none"``
    loads nothing, a comma-separated list only those named.

    Raises:
        OptionError: No plugin has a name that is listed.
    """
    if names == "none":
        return
    wanted = [name.strip() for name in names.split(",") if name.strip() and names != "all"]
    if unknown := [name for name in wanted if name not in {p.name for p in points}]:
        there = ", ".join(p.name for p in points) or "none"
        raise OptionError(f"plugins={names}: no plugin is called {unknown[0]!r}; there are: {there}")
    for point in points:
        if wanted and point.name not in wanted:
            continue
        try:
            with rolled_back():
                point.load()
        except Exception as error:  # a stranger's module may raise anything; it must not take the others down
            pass_on(error)
            PLUGIN_FAILURES.append(f"{point.name} ({point.value}): {type(error).__name__}: {error}")
            warn(f"plugin {PLUGIN_FAILURES[-1]}")


def _installed() -> list[EntryPoint]:
    others = any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder)
    if not others and not any(map(_may_bring_plugins, sys.path)):
        return []
    # With all that it imports it takes 20 ms, a tenth of a start: only where there are plugins.
    from importlib.metadata import entry_points

    return sorted(entry_points(group=PLUGIN_GROUP), key=lambda e: e.name)


def _may_bring_plugins(place: str) -> bool:
    """Whether a package in *place*, an entry of ``sys.path``, declares plugins; of an archive nobody knows."""
    try:
        with os.scandir(place or ".") as entries:
            return any(_names_plugins(e.path) for e in entries if e.name.lower().endswith(("dist-info", "egg-info")))
    except NotADirectoryError:
        return True
    except OSError as error:
        pass_on(error)
        return False


def _names_plugins(package: str) -> bool:
    listing = f"{package}/entry_points.txt"
    if not os.access(listing, os.R_OK):  # an error for each package that has none takes three times as long
        return False
    try:
        with open(listing, "rb") as file:
            return PLUGIN_GROUP.encode() in file.read()
    except OSError as error:
        pass_on(error)
        return False
