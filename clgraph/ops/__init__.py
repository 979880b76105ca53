"""Operators, one module each; hot implementations stand beside in ``<operator>_tiles``. All register themselves.

They are imported on use: those that a question to a registry is about, all where it is about all.
"""

import functools
import pkgutil
from collections.abc import Callable, Iterable, Mapping

from clgraph.errors import UnsupportedError
from clgraph.graph.primitive import IMPORTERS, PRIMITIVES, Primitive
from clgraph.ops import contents
from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.library import FAMILIES


@functools.cache
def _modules() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@functools.cache
def _homes(what: str) -> Mapping[str, list[str]]:
    """Return a table of ``contents`` the other way round."""
    found: dict[str, list[str]] = {}
    table: Mapping[str, str] = getattr(contents, what)
    for module, names in table.items():
        for name in names.split():
            found.setdefault(name, []).append(module)
    return found


def _importing(op_type: str | None) -> Iterable[str]:
    return _homes("ONNX").get(op_type or "", _modules())


def _defining(kind: str | None) -> Iterable[str]:
    if kind in _modules():
        return [kind]
    return _homes("KINDS").get(kind or "", _modules())


def _implementing(kind: str | None) -> Iterable[str]:
    """Return the modules of the primitive, those called like it and more, and those that implement several."""
    if kind is None:
        return _modules()
    beside = [name for name in _modules() if name.startswith(f"{kind}_")]
    return [*_defining(kind), *beside, *_homes("IMPLEMENTATIONS").get(kind, ())]


def _tiling(function: str | None) -> Iterable[str]:
    """Return the modules that declare tile functions and micro-kernels: a library has those of all."""
    return [*(name for name in _modules() if name.endswith("_tiles")), *contents.TILES]


def _named(modules: Callable[[str | None], Iterable[str]]) -> Callable[[str | None], Iterable[str]]:
    return lambda group: (f"{__name__}.{module}" for module in modules(group))


def primitive_of(kind: str) -> type[Primitive]:
    """Return the primitive called *kind*.

    Raises:
        UnsupportedError: There is none, here or in a plugin that is loaded.
    """
    found = PRIMITIVES.get(kind)
    if found is None:
        raise UnsupportedError(f"no operator is called {kind!r}: it is a plugin's that is not installed or not loaded")
    return found


PRIMITIVES.found_by(_named(_defining))
IMPORTERS.found_by(_named(_importing))
IMPLEMENTATIONS.found_by(_named(_implementing))
DESCRIPTORS.found_by(_named(_tiling))
FAMILIES.found_by(_named(_tiling))
