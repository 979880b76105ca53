"""The adapter for Model Explorer, whose package takes 500 MB: classes of its fields stand in for it."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import onnx
import pytest

from clgraph.errors import InputError
from tests.support.models import small_model


def _class(name: str, required: tuple[str, ...], **defaults: Any) -> type:
    """Return a dataclass with the *required* fields, then those of *defaults*."""
    optional = [(key, Any, field(default_factory=lambda value=value: value)) for key, value in defaults.items()]
    return make_dataclass(name, [*required, *optional])


BUILDER = SimpleNamespace(
    KeyValue=_class("KeyValue", ("key", "value")),
    MetadataItem=_class("MetadataItem", ("id",), attrs=()),
    IncomingEdge=_class("IncomingEdge", ("sourceNodeId",), sourceNodeOutputId="0", targetNodeInputId="0"),
    GraphNode=_class(
        "GraphNode", ("id", "label"), namespace="", attrs=(), incomingEdges=(), outputsMetadata=(), inputsMetadata=()
    ),
    Graph=_class("Graph", ("id",), nodes=()),
    GraphCollection=_class("GraphCollection", ("label",), graphs=(), graphSorting="node_count_desc"),
)


class Adapter:
    """Stands in for Model Explorer's base class."""


@dataclass
class AdapterMetadata:
    """Stands in for Model Explorer's."""

    id: str = ""
    name: str = ""
    description: str = ""
    source_repo: str = ""
    fileExts: list[str] = field(default_factory=list)  # noqa: N815  # as it is called there


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The adapter, loaded as Model Explorer does, compiling for no device."""
    stand_in = ModuleType("model_explorer")
    stand_in.__dict__.update(Adapter=Adapter, AdapterMetadata=AdapterMetadata, graph_builder=BUILDER)
    monkeypatch.setitem(sys.modules, "model_explorer", stand_in)
    monkeypatch.delitem(sys.modules, "clgraph.explorer.model_explorer.main", raising=False)
    monkeypatch.setenv("CLGRAPH_DEVICE", "null")
    made = importlib.import_module("clgraph.explorer.model_explorer.main").ClgraphAdapter()
    yield made
    sys.modules.pop("clgraph.explorer.model_explorer.main", None)


def test_a_program_after_each_pass_that_changed_it_is_a_graph(adapter: Any, tmp_path: Path) -> None:
    model = small_model()
    model.graph.node[0].name = "/net/stem/conv"
    onnx.save(model, tmp_path / "small.onnx")
    assert adapter.metadata.fileExts == ["onnx"]
    (collection,) = adapter.convert(str(tmp_path / "small.onnx"), {})["graphCollections"]
    assert collection.label == "after each pass"
    names = [graph.id for graph in collection.graphs]
    assert names == sorted(names)
    assert names[0] == "(built)"
    assert len(names) < 20
    built, last = collection.graphs[0], collection.graphs[-1]
    kinds = {node.label for node in built.nodes}
    assert {"x", "y", "convolution", "pooling"} <= kinds
    for graph in (built, last):
        known = {node.id for node in graph.nodes}
        assert len(known) == len(graph.nodes)
        edges = [edge for node in graph.nodes for edge in node.incomingEdges]
        assert {edge.sourceNodeId for edge in edges} <= known
        reached = {"output y"}
        for node in reversed(graph.nodes):
            reached |= {e.sourceNodeId for e in node.incomingEdges} if node.id in reached else set()
        assert reached == known
    (stem,) = (n for n in built.nodes if n.namespace == "net/stem")
    told = {pair.key: pair.value for pair in stem.attrs}
    assert told["origin"] == "/net/stem/conv"
    assert any(key.startswith("constant ") for key in told)
    (last_stem,) = (n for n in last.nodes if n.id == stem.id)
    assert next(pair.value for pair in last_stem.attrs if pair.key == "implementation").startswith("convolution.")
    assert last_stem.outputsMetadata[0].attrs[0].value.startswith("f32[1,8,")


def test_a_model_of_open_sizes_is_an_error_that_says_so(adapter: Any, tmp_path: Path) -> None:
    onnx.save(small_model(size="n"), tmp_path / "open.onnx")
    with pytest.raises(InputError, match="open"):
        adapter.convert(str(tmp_path / "open.onnx"), {})
