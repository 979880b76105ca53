"""What modules have registered whose import has not come to its end: taken back where it never does.

A module that a signal handler's exception interrupts is executed anew when somebody imports it again. Python forgets
it; what it has entered in tables would stay, and refuse the same once more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec

_unfinished: dict[int, tuple[ModuleSpec, list[Callable[[], None]]]] = {}
"""By the module's identity: how to take back what it has registered. Empty unless modules are being imported."""


def undone_unless_imported(undo: Callable[[], None]) -> None:
    """Have *undo* called if a module that is being executed, and calls this, is not imported in the end.

    It may be called for what was not done yet.
    """
    frame = sys._getframe(2)
    while frame.f_code.co_name != "<module>":
        if frame.f_back is None:
            return
        frame = frame.f_back
    spec = frame.f_globals.get("__spec__")
    if isinstance(spec, ModuleSpec) and _is_being_imported(spec):
        _unfinished.setdefault(id(spec), (spec, []))[1].append(undo)


def settle() -> None:
    """Take back what is of modules whose import has failed since the last call; cheap where none was imported."""
    if not _unfinished:
        return
    for key, (spec, undoes) in list(_unfinished.items()):
        if _is_being_imported(spec):
            continue
        if getattr(sys.modules.get(spec.name), "__spec__", None) is not spec:
            for undo in undoes:
                undo()
        _unfinished.pop(key, None)


def _is_being_imported(spec: ModuleSpec) -> bool:
    """Return whether the import system executes the module of *spec*, as it tells itself (CPython 3.3 and later)."""
    return bool(getattr(spec, "_initializing", False))
