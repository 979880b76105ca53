"""Operators, one module each: attributes, shape rule, reference, importer, general kernel. All register themselves.

They are imported on use: those that a question to a registry is about, all where it is about all.
"""

import functools
from collections.abc import Iterable, Mapping

from clgraph.core.part import modules_in
from clgraph.graph.importing import IMPORTERS, MICROSOFT, NHWC, QONNX
from clgraph.graph.primitive import PRIMITIVES
from clgraph.ops import index

_TABLES = {MICROSOFT: "MICROSOFT", NHWC: "NHWC", **dict.fromkeys(QONNX, "QONNX_OPERATORS")}
"""Of ``index``, by the domain whose operators it has."""


def modules_of(kind: str | None, part: str | None = None) -> Iterable[str]:
    """Return the modules that may define the primitive *kind* and its general kernel; all for ``None``."""
    modules = _modules()
    name = _by_name("KINDS").get(kind or "", kind)
    return [f"{__name__}.{name}"] if name in modules else [f"{__name__}.{module}" for module in modules]


def _importers_of(operator: str | None, part: str | None = None) -> Iterable[str]:
    domain, _, op_type = (operator or "").rpartition(":")
    listed = _by_name(_TABLES.get(domain, "ONNX")).get(op_type, "").split()
    return [f"{__name__}.{module}" for module in listed or _modules()]


@functools.cache
def _modules() -> tuple[str, ...]:
    return tuple(sorted(name for name in modules_in(__path__) if name != "index"))


@functools.cache
def _by_name(table: str) -> Mapping[str, str]:
    """Return a table of ``index`` the other way round; several modules of a name are separated by spaces."""
    found: dict[str, str] = {}
    rows: Mapping[str, str] = getattr(index, table)
    for module, names in rows.items():
        for name in names.split():
            found[name] = f"{found[name]} {module}" if name in found else module
    return found


PRIMITIVES.found_by(modules_of)
IMPORTERS.found_by(_importers_of)
