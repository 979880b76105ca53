"""What is imported on use: every operator is found by what a model asks for, and only what it needs is imported."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

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


def _homes_of(registry: Registry, name: Callable[[Any], str]) -> dict[str, set[str]]:
    """Return the names of the entries by the module of this package that registers them."""
    found: dict[str, set[str]] = {}
    for key in registry:
        if (home := _home(registry, key)).startswith(_HERE):
            found.setdefault(home.removeprefix(_HERE), set()).add(name(key))
    return found


def test_the_table_of_onnx_operators_names_what_there_is_and_all_of_it() -> None:
    table = {module: set(text.split()) for module, text in contents.ONNX.items()}
    assert table == _homes_of(IMPORTERS, lambda key: key[1])


def test_the_table_of_primitives_names_what_is_not_called_like_its_module_and_all_of_it() -> None:
    table = {module: set(text.split()) for module, text in contents.KINDS.items()}
    defined = _homes_of(PRIMITIVES, str)
    others = {module: kinds - {module} for module, kinds in defined.items() if kinds != {module}}
    assert table == others


def test_the_tables_of_implementations_and_tile_functions_name_what_there_is_and_all_of_it() -> None:
    for module in clgraph.ops._modules():
        importlib.import_module(_HERE + module)
    for module, keys in _homes_of(IMPLEMENTATIONS, str).items():
        kinds = {IMPLEMENTATIONS[key].primitive.kind for key in keys}
        beside = {k for k in kinds if k != module and not module.startswith(f"{k}_") and k not in _defined(module)}
        assert set(contents.IMPLEMENTATIONS.get(module, "").split()) == beside, module
    declaring = {module for registry in (DESCRIPTORS, FAMILIES) for module in _homes_of(registry, str)}
    assert sorted(m for m in declaring if not m.endswith("_tiles")) == sorted(contents.TILES)


def _defined(module: str) -> set[str]:
    """Return the primitives that *module* defines: their implementations are sought there."""
    return {module, *contents.KINDS.get(module, "").split()}


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
