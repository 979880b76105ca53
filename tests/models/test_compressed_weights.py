"""Models whose float weights are compressed: results against models of the floats that are left, memory, options."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import clgraph
from clgraph.model.memory_report import memory_report
from clgraph.passes.quantization.few_bits import group_of, rounded
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_model, greedy_tokens, onnxruntime_run
from tests.support.graphs import FLOAT, graph
from tests.support.graphs import model as model_of

pytestmark = pytest.mark.opencl

F = np.float32
DECODER = Decoder(layers=1, width=256, heads=4, shared=4, head_size=64, inner=320, vocabulary=320)
"""Every product has at least 65536 weights."""


def left(model: onnx.ModelProto, bits: int, last: str) -> onnx.ModelProto:
    """Return *model* with the floats that its compressed weights stand for; *last* and tables have 8 bits."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    picked = {node.input[0] for node in made.graph.node if node.op_type == "Gather"}
    for held in made.graph.initializer:
        array = numpy_helper.to_array(held)
        if array.ndim == 2 and array.size >= 1 << 16:
            rows = array if held.name in picked else np.ascontiguousarray(array.T)
            few = 8 if held.name in picked or last in held.name else bits
            group = rows.shape[1] if held.name in picked else group_of(rows.shape[1], 128)
            found = rounded(rows, few, group, symmetric=few == 8)
            by_group = found.integers.reshape(len(rows), -1, group).astype(F) - found.zeros[..., None]
            floats = (by_group * found.scales[..., None]).reshape(len(rows), -1)[:, : rows.shape[1]]
            held.CopyFrom(numpy_helper.from_array(floats if held.name in picked else floats.T.copy(), held.name))
    return made


def dense(rng: np.random.Generator, k: int = 272, n: int = 256) -> tuple[onnx.ModelProto, np.ndarray]:
    """Return a model of two products, and the weights of the first: the last one has 8 bits in any case."""
    w, v = rng.standard_normal((k, n)).astype(F), np.eye(n, dtype=F)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"]), onnx.helper.make_node("MatMul", ["y", "v"], ["z"])]
    made = graph(nodes, [("x", FLOAT, ("rows", k))], [("y", FLOAT, None), ("z", FLOAT, None)], w=w, v=v)
    return model_of(made), w


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_a_product_is_that_of_the_floats_that_are_left(weights: str, device: str, rng: np.random.Generator) -> None:
    model, w = dense(rng)
    made = rounded(w, bits := int(weights[3:]), 128, symmetric=bits == 8, transpose=True)
    by_group = made.integers.reshape(len(w.T), -1, 128).astype(float) - made.zeros[..., None]
    exact = (by_group * made.scales[..., None]).reshape(len(w.T), -1)[:, : len(w)].T
    for config in ({}, {"quantised_products": "exact"}, {"device_class": "gpu"}):
        compiled = clgraph.compile(model, device, weights=weights, config=config)
        for rows in (1, 21):
            x = rng.standard_normal((rows, len(w))).astype(F)
            got = compiled.run({"x": x})["y"]
            assert [c.bits for c in compiled.explain().compressed] == [bits, 8]
            # In float: a sum of 272, the weight's own rounding, the scale. By digits: 2^-24 of the largest number of a
            # block times its weights, of all blocks at most of them all.
            largest = np.abs(x).max(1, keepdims=True) * np.abs(exact).sum(0)
            bound = 2.0**-24 * ((len(w) + 8) * (np.abs(x) @ np.abs(exact)) + largest)
            assert (np.abs(got - x.astype(float) @ exact) <= bound).all()


@pytest.mark.parametrize(("weights", "least"), [("int8", 3.8), ("int4", 5.4)])
def test_a_decoder_says_what_onnxruntime_says_of_the_floats_that_are_left(weights, least, device) -> None:
    model, prompt = decoder_model(DECODER), [3, 1, 4, 1, 5]
    compiled = clgraph.compile(model, device, weights=weights)
    wanted = greedy_tokens(onnxruntime_run(left(model, int(weights[3:]), "lm_head")), DECODER, prompt, 4)
    assert greedy_tokens(lambda feeds: list(compiled.run(feeds).values()), DECODER, prompt, 4) == wanted
    found = compiled.explain().compressed
    assert len(found) == 9
    # 8 bits and a scale for 64 to 256; of 4 bits all but the table and the last product.
    assert sum(c.before for c in found) > least * sum(c.nbytes for c in found)
    floats = clgraph.compile(model, device)
    greedy_tokens(lambda feeds: list(floats.run(feeds).values()), DECODER, prompt, 1)
    few, many = (memory_report(m.program).constants for m in (compiled, floats))
    assert sum(c.before for c in found) - sum(c.nbytes for c in found) <= many - few + 4096


def test_compressed_models_are_verified_saved_and_found_in_the_cache(device, rng, tmp_path) -> None:
    model, _ = dense(rng)
    x = rng.standard_normal((3, 272)).astype(F)
    options = {"shapes": {"x": x.shape}, "cache_dir": tmp_path}
    checked = clgraph.compile(model, device, weights="int4", config={"verify_passes": True}, **options)
    want = checked.run({"x": x})["z"]
    checked.save(tmp_path / "saved.clg")
    for again in (
        clgraph.load(tmp_path / "saved.clg", device, config={"weights": "int4"}),
        clgraph.compile(model, device, weights="int4", **options),
    ):
        np.testing.assert_array_equal(again.run({"x": x})["z"], want)
        assert [c.bits for c in again.explain().compressed] == [4, 8]
    other = clgraph.compile(model, device, weights="int4", config={"weight_group": 32}, **options)
    assert [c.group for c in other.explain().compressed] == [32, 32]
    assert clgraph.compile(model, device, **options).explain().compressed == ()
