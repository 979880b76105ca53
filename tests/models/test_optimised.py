"""Models as ONNX Runtime's optimiser writes them, against ONNX Runtime. `tools/optimised_matrix` shows the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import clgraph
from tests.models.test_quantised import quantised
from tests.models.test_zoo import BOUND
from tests.support import optimised as optimised_models
from tests.support.matrix import load, model_names
from tests.support.onnx_case import one_node
from tests.support.optimised import off, optimised, optimised_transformer, own_operators, row_of, rows, worst
from tests.support.oracle import WHOLE_MODEL
from tests.support.zoo import ZOO, zoo_names

pytestmark = pytest.mark.opencl


def agrees(name, model, feeds, folder, device, bound):
    for row in rows(name, model, feeds, folder, device):
        assert not row.wrong, f"{row.level}: {row.wrong}"
        assert row.error is None or row.error <= bound, row.level


def test_results_that_are_no_numbers_are_infinitely_far():
    numbers, none = np.float32([1, 2]), np.float32([1, np.nan])
    assert worst([numbers, none], [numbers, numbers]) == np.inf
    assert worst([none], [none]) == 0
    assert worst([np.float32([-3, 1])], [np.float32([-3, 3])]) == 2 / 6


def test_quantised_results_may_be_those_of_either_of_onnx_runtime_s_ways(monkeypatch):
    found = {"ORT_DISABLE_ALL": 1, "ORT_ENABLE_ALL": 2}
    monkeypatch.setattr(optimised_models, "_expected", lambda model, feeds, level: [np.float32([found[level.name]])])
    scale, zero = np.float32(1), np.uint8(0)
    quantised_node, _ = one_node("QuantizeLinear", [np.float32([2]), scale, zero], opset=18)
    for model, error in ((quantised_node, 0), (one_node("Neg", [np.float32([2])], opset=18)[0], 1)):
        assert off([np.float32([2])], model, {}) == error
        assert off([np.float32([1])], model, {}) == 0


@pytest.mark.parametrize("name", ["small_mobilenet_v3", "small_efficientnet", "small_encoder", "small_encoder_open"])
def test_a_small_model_agrees_at_every_portable_level(name, device, tmp_path):
    model, feeds = ZOO[name].make()
    agrees(name, model, feeds, tmp_path, device, BOUND)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "form"), [("residual", "QOperator"), ("small_encoder", "dynamic")])
def test_a_small_quantised_model_agrees_at_every_portable_level(name, form, device, tmp_path):
    model, feeds = quantised(name, form, tmp_path)
    # Sums beside a half go to either side: half a step of 1/255 a layer, which add up as the roots of their numbers.
    agrees(name, model, feeds, tmp_path, device, np.sqrt(16) / 255)


@pytest.mark.parametrize("attention", ["Attention", "MultiHeadAttention"])
@pytest.mark.parametrize("name", ["small_encoder", "small_encoder_open"])
def test_an_encoder_agrees_that_the_optimiser_for_transformers_has_made(name, attention, device, tmp_path):
    pytest.importorskip("sympy", reason="onnxruntime.transformers wants it")
    model, feeds = ZOO[name].make()
    made = optimised_transformer(model, tmp_path, heads=4, width=32, attention=attention)
    assert own_operators(made)[attention] == 2
    row = row_of(name, "transformers", made, feeds, device)
    assert not row.wrong
    assert row.error <= BOUND


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo_names(small=False))
def test_a_model_of_the_zoo_agrees_at_every_portable_level(name, device, tmp_path):
    model, feeds = ZOO[name].make()
    agrees(name, model, feeds, tmp_path, device, BOUND)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["QDQ", "QOperator", "dynamic"])
@pytest.mark.parametrize("name", ["residual", "small_mobilenet_v2", "small_encoder"])
def test_a_quantised_model_agrees_at_every_portable_level(name, form, device, tmp_path):
    model, feeds = quantised(name, form, tmp_path)
    layers = sum(any(kind in node.op_type for kind in ("Conv", "MatMul", "Gemm", "Add")) for node in model.graph.node)
    agrees(name, model, feeds, tmp_path, device, np.sqrt(layers) / 255)


@pytest.mark.slow
@pytest.mark.parametrize("name", model_names())
def test_a_model_of_onnx_and_of_the_demo_agrees_at_every_portable_level(name, device, tmp_path):
    model, feeds = load(name)
    agrees(name, model, feeds, tmp_path, device, WHOLE_MODEL)


def kinds(model, feeds, device):
    compiled = clgraph.compile(model, device, shapes={n: a.shape for n, a in feeds.items()})
    return Counter(node.primitive.kind for node in compiled.program)


@pytest.mark.parametrize("name", ["small_mobilenet_v3", "small_encoder"])
def test_an_optimised_model_becomes_the_program_of_the_one_that_was_optimised(name, device, tmp_path):
    model, feeds = ZOO[name].make()
    assert kinds(optimised(model, "extended", tmp_path), feeds, device) == kinds(model, feeds, device)


@pytest.mark.filterwarnings("ignore")
def test_transposes_around_convolutions_with_channels_last_vanish(device, tmp_path):
    model, feeds = quantised("residual", "QOperator", tmp_path)
    made = optimised(model, "all", tmp_path)
    assert own_operators(made)["NhwcMaxPool"] == 1
    found = kinds(made, feeds, device)
    convolutions = sum(found[kind] for kind in ("convolution", "winograd_convolution", "quantized_convolution"))
    assert convolutions == own_operators(made)["QLinearConv"] == 6
    assert not found["transpose"]
