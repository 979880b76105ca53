"""Indices that are fed: one that is outside of its table is refused, whichever way a model is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as peers

import clgraph
from clgraph import onnxruntime as ours
from clgraph.errors import InputError
from clgraph.graph.topology import Topology
from clgraph.onnxruntime.statuses import InvalidArgument
from clgraph.ops.gather import Gather
from tests.support import oracle

TABLE = onnx.numpy_helper.from_array(np.arange(40, dtype=np.float32).reshape(10, 4), "table")
NODES = {
    "Gather": "y = Gather(table, ids)",
    "reshaped": "flat = Reshape(ids, all)\n small = Cast<to = 6>(flat)\n y = Gather(table, small)",
    "GatherElements": "y = GatherElements(table, ids)",
}


def model(nodes: str) -> onnx.ModelProto:
    graph = onnx.parser.parse_graph(f"g (int64[N, 2] ids) => (float[M] y) <int64[1] all = {{-1}}> {{ {nodes} }}")
    graph.initializer.append(TABLE)
    graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.opencl
@pytest.mark.parametrize("nodes", NODES.values(), ids=NODES)
def test_an_index_outside_of_the_table_is_refused_with_input_layer_and_range(nodes: str) -> None:
    made = model(nodes)
    peer = oracle.session(made, threads=1)
    session = ours.InferenceSession(made.SerializeToString())
    with clgraph.compile(made) as compiled:
        for _ in range(2):
            feeds = {"ids": np.array([[0, -10], [9, 3]])}
            np.testing.assert_array_equal(compiled.run(feeds)["y"], peer.run(None, feeds)[0])
            for wrong in (10, -11):
                feeds = {"ids": np.array([[0, 1], [wrong, 3]])}
                with pytest.raises(InputError, match=rf"'ids': index {wrong} .* 10 slices.* -10 to 9"):
                    compiled.run(feeds)
                with pytest.raises(InvalidArgument):
                    session.run(None, feeds)
                with pytest.raises((peers.InvalidArgument, peers.Fail)):
                    peer.run(None, feeds)


def test_only_layers_that_an_output_needs_count_once_each_and_an_axis_that_is_none_is_not_looked_up() -> None:
    made = Topology()
    made.input("ids", ("N",), np.int64)
    for name, rows, axis in (("small", 3, 0), ("table", 10, 0), ("again", 10, -2), ("odd", 5, 7)):
        made.constant(name, np.zeros((rows, 4), np.float32))
        made.add(f"picked_{name}", Gather(axis), name, "ids")
    made.output("picked_table")
    made.output("picked_again")
    made.output("picked_odd")
    assert [(i.name, i.size, i.layer) for i in made.indices] == [("ids", 10, "picked_table")]


@pytest.mark.opencl
def test_a_saved_model_refuses_it_without_reading_a_layer(tmp_path: Path) -> None:
    with clgraph.compile(model(NODES["reshaped"])) as compiled:
        compiled.run({"ids": np.array([[1, 9]])})
        compiled.save(tmp_path / "model.clg")
    with clgraph.load(tmp_path / "model.clg") as loaded:
        with pytest.raises(InputError, match="index 10"):
            loaded.run({"ids": np.array([[1, 10]])})
        assert "layers" not in loaded.topology.__dict__
        assert loaded.run({"ids": np.array([[1, 9]])})["y"].shape == (2, 4)


def test_streams_refuse_it_too_and_go_on() -> None:
    with clgraph.compile(model(NODES["Gather"]), "host", hint="throughput", streams=1) as streamed:
        with pytest.raises(InputError, match="index 10"):
            streamed.run({"ids": np.array([[1, 10]])})
        assert streamed.run({"ids": np.array([[1, 9]])})["y"].shape == (1, 2, 4)


def test_tables_of_words_places_and_segments_are_looked_at() -> None:
    names = ("words", "segments", "table", "places", "segment_table", "scale", "shift")
    node = onnx.helper.make_node("EmbedLayerNormalization", names, ["y", "count"], domain="com.microsoft")
    inputs = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.INT32, [1, 2]) for n in names[:2]]
    rows = {"table": 10, "places": 4, "segment_table": 2}
    tables = [onnx.numpy_helper.from_array(np.ones((n, 8), np.float32), t) for t, n in rows.items()]
    tables += [onnx.numpy_helper.from_array(np.ones(8, np.float32), t) for t in names[5:]]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2, 8])]
    graph = onnx.helper.make_graph([node], "g", inputs, outputs, tables)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    with clgraph.compile(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), "host") as compiled:
        ids = np.array([[9, 0]], np.int32)
        compiled.run({"words": ids, "segments": ids // 9})
        for name, given in (("words", (ids + 1, ids // 9)), ("segments", (ids, ids))):
            with pytest.raises(InputError, match=f"input '{name}': index"):
                compiled.run(dict(zip(("words", "segments"), given, strict=True)))
