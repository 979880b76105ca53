"""Sizes that an exporter has not known, and numbers of tokens that it has fixed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds, decoder_model, onnxruntime_run

pytestmark = pytest.mark.opencl


@pytest.mark.parametrize(("size", "found"), [("Castpresent_ssm.0_dim_0", True), (None, True), ("rows", False)])
def test_sizes_that_an_exporter_names_do_not_hide_a_pair(size, found):
    """As torch.onnx.export names those of Mamba-2's states in Bamba, Granite 4 and Falcon-H1."""
    info = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # noqa: E731
    nodes = [
        helper.make_node("ReduceSum", ["x", "axis"], ["added"]),
        helper.make_node("Add", ["added", "past_ssm.0"], ["present_ssm.0"]),
        helper.make_node("Identity", ["present_ssm.0"], ["y"]),
    ]
    axis = onnx.numpy_helper.from_array(np.array([0]), "axis")
    inputs = [info("x", "rows", 2), info("past_ssm.0", 3, 2)]
    outputs = [info("present_ssm.0", size, 2), info("y", 3, 2)]
    graph = helper.make_graph(nodes, "sums", inputs, outputs, [axis])
    model = clgraph.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert [(p.input, p.output) for p in model.state] == ([("past_ssm.0", "present_ssm.0")] if found else [])
    if not found:
        return
    session = model.session()
    for rows, total in ((1, 1), (2, 3), (1, 4)):
        y = session.run(x=np.ones((rows, 2), np.float32))["y"]
        np.testing.assert_array_equal(y, np.full((3, 2), total, np.float32))


@pytest.mark.parametrize("export", ["genai", "optimum", "onnx23"])
@pytest.mark.parametrize("tokens", [1, 16])
def test_models_of_a_fixed_number_of_new_tokens_have_state_where_that_is_one(export, tokens, rng):
    d = Decoder(export=export, layers=1, vocabulary=64)
    made = decoder_model(d)
    run = onnxruntime_run(made)
    for value in (*made.graph.input, *made.graph.output):
        if value.name in ("input_ids", "position_ids", "logits"):
            value.type.tensor_type.shape.dim[1].dim_value = tokens
    model = clgraph.compile(made)
    assert bool(model.state) == (tokens == 1)
    peers, ours = [], []
    for _ in range(3):
        ids = rng.integers(3, 64, (1, tokens))
        wanted, *peers = run(decoder_feeds(d, ids, peers))
        results = model.run(decoder_feeds(d, ids, ours))
        logits, *ours = (results[name] for name in model.output_names)
        assert [x.shape for x in ours] == [x.shape for x in peers]
        np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4)
