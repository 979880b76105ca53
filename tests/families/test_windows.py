"""Decoders some of whose layers keep the latest tokens only, as Transformers' caches of sliding layers do."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import clgraph
from tests.support.graphs import FLOAT, graph, model

pytestmark = pytest.mark.opencl


def test_layers_that_keep_a_window_are_bound_like_those_that_keep_all(device: str) -> None:
    """Each past has a length of its own in name, and they differ from where the window is full."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["keys"], axis=1),
        helper.make_node("Concat", ["near", "x"], ["nearby"], axis=1),
        helper.make_node("Slice", ["nearby", "start", "end", "one"], ["window"]),
        helper.make_node("Transpose", ["keys"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["scores"]),
        helper.make_node("Transpose", ["nearby"], ["turned_nearby"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned_nearby"], ["scores_nearby"]),
        helper.make_node("Add", ["scores", "scores_nearby"], ["both"]),
        helper.make_node("Add", ["both", "mask"], ["masked"]),
        helper.make_node("MatMul", ["masked", "keys"], ["y"]),
    ]
    sizes = {"x": ("b", "s", 8), "past": ("b", "p", 8), "near": ("b", "w", 8), "mask": ("b", 1, "t")}
    constants = {"start": np.array([-15]), "end": np.array([2**63 - 1]), "one": np.array([1])}
    inputs = [(name, FLOAT, shape) for name, shape in sizes.items()]
    outputs = [("y", FLOAT, None), ("window", FLOAT, None)]
    compiled = clgraph.compile(model(graph(nodes, inputs, outputs, **constants), opset=18), device)
    families = set()
    for past in (7, 8, 9, 14, 15):
        random = np.random.default_rng(past)
        shapes = {"x": (1, 1, 8), "past": (1, past, 8), "near": (1, past, 8), "mask": (1, 1, past + 1)}
        x, keys, near, mask = (random.standard_normal(shape).astype(np.float32) for shape in shapes.values())
        results = compiled.run({"x": x, "past": keys, "near": near, "mask": mask})
        keys, near = np.concatenate([keys, x], 1), np.concatenate([near, x], 1)
        wanted = (x @ keys.transpose(0, 2, 1) + x @ near.transpose(0, 2, 1) + mask) @ keys
        # Sums of 8, 8 and up to 16 products: some 40 roundings of at most the sum of the products' sizes.
        most = np.abs(x).sum() * np.abs(keys).max() ** 2 * keys.shape[1] * 16
        np.testing.assert_allclose(results["y"], wanted, rtol=0, atol=40 * 2.0**-24 * most)
        np.testing.assert_array_equal(results["window"], near[:, -15:])
        (*_, told) = compiled.specialisations
        assert "bound in" in told
        families.add(told.partition("family")[2].partition(";")[0])
    assert len(families) == 1
