"""Operators, one module each; hot implementations stand beside in ``<operator>_tiles``. All register themselves.

They are imported on use: all of them before the first question to a registry that needs all, one by ``primitive_of``.
"""

import functools
import pkgutil
from importlib import import_module

from clgraph.core.registry import complete_by
from clgraph.errors import UnsupportedError
from clgraph.graph.primitive import PRIMITIVES, Primitive


@functools.cache
def _modules() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(__path__))


def _import_all() -> None:
    for name in sorted(_modules()):
        import_module(f"{__name__}.{name}")


def primitive_of(kind: str) -> type[Primitive]:
    """Return the primitive called *kind*, importing its own module where that is enough.

    Raises:
        UnsupportedError: There is none, here or in a plugin that is loaded.
    """
    if kind in _modules():
        import_module(f"{__name__}.{kind}")
    found = PRIMITIVES.get(kind)
    if found is None:
        raise UnsupportedError(f"no operator is called {kind!r}: it is a plugin's that is not installed or not loaded")
    return found


complete_by(_import_all)
