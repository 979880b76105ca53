from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.frontend.export import DOMAIN, export_outline
from tests.support.models import small_model


@pytest.fixture(scope="module")
def outline(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("dump")
    clgraph.compile(small_model(), device="null", config={"dump_graphs": folder})
    return json.loads(next(folder.glob("*_plan_memory.json")).read_text())


def test_a_program_becomes_a_graph_that_tells_its_decisions(outline: dict, tmp_path: Path) -> None:
    onnx.save(export_outline(outline, "small"), tmp_path / "small.onnx")
    graph = onnx.load(tmp_path / "small.onnx", load_external_data=False).graph
    assert [n.name for n in graph.node] == [n["name"] for n in outline["nodes"]]
    assert {n.domain for n in graph.node} == {DOMAIN}
    for made, node in zip(graph.node, outline["nodes"], strict=True):
        told = {a.name: onnx.helper.get_attribute_value(a) for a in made.attribute}
        assert told["implementation"].decode() == node["implementation"]
        assert [text.decode() for text in told["origin"]] == node["origin"]
    made = {v.name for v in (*graph.input, *graph.initializer)} | {o for n in graph.node for o in n.output}
    assert {name for n in graph.node for name in n.input} <= made
    assert {o.name for o in graph.output} <= made
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.value_info}
    assert all(shapes[v["name"]] == v["shape"] for n in outline["nodes"] for v in n["outputs"])


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_every_element_type_has_its_number(dtype: DType) -> None:
    value = {"name": "x", "dtype": str(dtype), "shape": [2, 3], "format": "ab", "nbytes": 24}
    empty = {"nodes": [], "constants": [], "outputs": []}
    (found,) = export_outline(empty | {"inputs": [value]}, "g").graph.input
    assert onnx.helper.tensor_dtype_to_np_dtype(found.type.tensor_type.elem_type) == dtype.numpy
