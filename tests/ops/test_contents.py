"""What is imported on use: every operator is found by what a model asks for, and only what it needs is imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import clgraph.ops
from clgraph.core.registry import Registry
from clgraph.graph.primitive import IMPORTERS, PRIMITIVES
from clgraph.ops import contents
from clgraph.selector.descriptor import DESCRIPTORS
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.library import FAMILIES

_HERE = "clgraph.ops."


def _home(registry: Registry, key: object) -> str:
    entry = registry[key]
    return entry.__module__ if hasattr(entry, "__module__") else ""


def _lost(registry: Registry) -> list[str]:
    """Return the entries of clgraph's own whose module a question about them would not import."""
    homes = {key: _home(registry, key) for key in registry}
    named = registry._modules
    assert named is not None
    return [
        f"{key}: {home}"
        for key, home in homes.items()
        if home.startswith(_HERE) and home not in set(named(registry._group(key, registry[key])))
    ]


def test_every_operator_and_implementation_is_found_where_it_is() -> None:
    assert [lost for r in (PRIMITIVES, IMPORTERS, IMPLEMENTATIONS, DESCRIPTORS) for lost in _lost(r)] == []


def test_families_of_micro_kernels_come_with_the_tile_functions_that_call_them() -> None:
    code = "import clgraph.ops; from clgraph.selector.library import *; DESCRIPTORS.values(); print(*FAMILIES._entries)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {f for d in DESCRIPTORS.values() if d.__module__.startswith(_HERE) for f in d.micros} <= set(found)
    assert set(found) <= set(FAMILIES)


def test_the_table_names_only_what_there_is() -> None:
    imported: dict[str, set[str]] = {}
    for key in IMPORTERS:
        imported.setdefault(_home(IMPORTERS, key).removeprefix(_HERE), set()).add(key[1])
    defined: dict[str, set[str]] = {}
    for kind in PRIMITIVES:
        defined.setdefault(_home(PRIMITIVES, kind).removeprefix(_HERE), set()).add(kind)

    def names(table: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
        return {module: set(text.split()) for module, text in table}

    assert names(contents.ONNX.items()).items() <= imported.items()
    assert all(kinds <= defined[module] for module, kinds in names(contents.KINDS.items()).items())
    assert set(contents.IMPLEMENTATIONS) | set(contents.TILES) <= set(clgraph.ops._modules())


def test_a_model_imports_no_operators_that_it_does_not_have() -> None:
    code = """
import sys
import clgraph
from clgraph.core.dtype import DType
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
t = Topology()
t.input("x", (1, 4, 8, 8), DType.F32)
t.add("n", Activation("relu"), "x", outputs=("y",))
t.output("y", "y")
clgraph.compile(t, device="null")
print(*(m for m in sys.modules if m.startswith("clgraph.ops.")))
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rare = ("einsum", "grid_sample", "loop", "recurrent", "scatter_general", "spectrum", "top_k", "unique")
    assert "clgraph.ops.activation" in loaded
    assert [m for m in rare if f"{_HERE}{m}" in loaded] == []
