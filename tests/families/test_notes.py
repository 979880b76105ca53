"""What is said of a program that is bound to a family."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.families.notes import BOUND, NOTE

pytestmark = pytest.mark.opencl


def test_a_member_tells_why_a_node_is_on_the_host(device: str) -> None:
    nodes = {"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3}
    nodes |= {"nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "n_targets": 1}
    nodes |= {"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "post_transform": "PROBIT"}
    held = {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [0.25, 0.5]}
    tree = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], "t", domain="ai.onnx.ml", **nodes, **held)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([tree], "trees", infos[:1], infos[1:])
    model = clgraph.compile(helper.make_model(graph, opset_imports=opsets, ir_version=8), device)
    model.run({"x": np.zeros((3, 1), np.float32)})
    told = model.explain().notes
    assert told[NOTE].startswith(BOUND)
    assert "t runs on host: nothing serves" in told["partition"]
    assert "not PROBIT" in told["partition"]
