"""Processes that ``multiprocessing`` and joblib start afresh: there, too, ``import onnxruntime`` finds clgraph.

The first thing that such a process reads is a pickled dictionary, its ``sys.path`` and the file of the main module in
it, before it imports any of the program. Reading the entry that is added here installs clgraph.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from clgraph.onnxruntime.names import is_installed

SPAWNERS = ("multiprocessing.spawn", "joblib.externals.loky.backend.spawn", "loky.backend.spawn")
"""The modules whose ``get_preparation_data`` makes that dictionary."""
ENTRY = "clgraph"


class _Installed:
    """What installs clgraph when it is unpickled; the search path comes first, as the process has not got it yet."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        path = [p for p in sys.path if isinstance(p, str)]
        return exec, (
            f"import sys\nsys.path[:] = {path!r}\nfrom clgraph.onnxruntime.installing import install\ninstall()",
        )


def reach() -> None:
    """Patch the modules that start processes and are imported already, so that theirs find clgraph, too."""
    for name in SPAWNERS:
        if name in sys.modules:
            _wrap(sys.modules[name])


def spec_of(name: str, path: Any) -> ModuleSpec | None:
    """Return the spec of one of :data:`SPAWNERS`, whose processes are told once it is imported; else ``None``."""
    found = PathFinder.find_spec(name, path) if name in SPAWNERS else None
    if found is None or found.loader is None:
        return None
    execute = found.loader.exec_module

    def execute_and_wrap(module: ModuleType) -> None:
        execute(module)
        _wrap(module)

    found.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]  # of this one loader
    return found


def _wrap(module: ModuleType) -> None:
    made: Callable[..., dict[str, Any]] = module.get_preparation_data
    if getattr(made, ENTRY, False):
        return

    @functools.wraps(made)
    def get_preparation_data(name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        data = made(name, *args, **kwargs)
        if is_installed():
            data[ENTRY] = _Installed()
            if name == "ignore":  # a fork server would import the main module, and read nothing before
                data = {key: value for key, value in data.items() if key not in ("main_path", "init_main_from_path")}
        return data

    setattr(get_preparation_data, ENTRY, True)
    module.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]  # as the module's own
