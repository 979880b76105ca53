"""What is imported on use: every operator is found by what a model asks for, and only what it needs is imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from clgraph.core.registry import Registry
from clgraph.graph.importing import IMPORTERS, MICROSOFT, NHWC, QONNX
from clgraph.graph.primitive import PRIMITIVES
from clgraph.ops import index

HERE = "clgraph.ops."


def _names_by_module(keys: Iterable[Any], registry: Registry, name: Callable[[Any], str]) -> dict[str, set[str]]:
    """Return the names of the entries at *keys* by the module of this package that registers them."""
    found: dict[str, set[str]] = {}
    for key in keys:
        home = getattr(registry[key], "__module__", "")
        if home.startswith(HERE):
            found.setdefault(home.removeprefix(HERE), set()).add(name(key))
    return found


DOMAINS = {MICROSOFT: "MICROSOFT", NHWC: "NHWC", **dict.fromkeys(QONNX, "QONNX_OPERATORS")}


@pytest.mark.parametrize("name", ["ONNX", *dict.fromkeys(DOMAINS.values())])
def test_the_index_of_onnx_operators_names_what_there_is_and_all_of_it(name: str) -> None:
    table = {module: set(text.split()) for module, text in getattr(index, name).items()}
    keys = [key for key in IMPORTERS if DOMAINS.get(key[0], "ONNX") == name]
    defined = _names_by_module(keys, IMPORTERS, lambda key: key[1])
    lines = [f'    "{m}": "{" ".join(sorted(names))}",' for m, names in defined.items() if table.get(m) != names]
    assert not lines, f"clgraph/ops/index.py, {name}:\n" + "\n".join(lines)
    assert table.keys() == defined.keys()


def test_the_index_of_primitives_names_what_is_not_called_like_its_module_and_all_of_it() -> None:
    table = {module: set(text.split()) for module, text in index.KINDS.items()}
    defined = _names_by_module(PRIMITIVES, PRIMITIVES, str)
    assert table == {module: kinds - {module} for module, kinds in defined.items() if kinds != {module}}


def test_a_model_imports_no_operators_that_it_does_not_have_and_no_rooms_of_other_devices() -> None:
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
print(*(m.removeprefix("clgraph.") for m in sys.modules if m.startswith(("clgraph.ops.", "clgraph.implementations."))))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rare = ("einsum", "grid_sample", "loop", "recurrent", "scatter", "spectrum", "top_k", "unique")
    assert {"ops.activation", "implementations.cpu.activation"} <= set(found)
    assert [m for m in rare if f"ops.{m}" in found] == []
    assert [m for m in found if ".gpu." in m or ".matrix_units." in m] == []
    assert "implementations.cpu.pooling" not in found
