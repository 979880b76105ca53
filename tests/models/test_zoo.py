"""Common architectures as exporters write them, against ONNX Runtime; and that they are those architectures."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from onnx import TensorProto

import clgraph
from clgraph.graph.node import Node
from clgraph.graph.primitive import Primitive
from clgraph.ops.bottleneck import Bottleneck
from tests.support.graph_writer import GraphWriter
from tests.support.oracle import expected, worst_error
from tests.support.zoo import ZOO, zoo_names

# Sums of 27 to 3072 products (as many roundings, partly cancelling: about 1e-6 of a layer's scale) in 20 to 80 layers,
# each of a gain near 1, so that errors add up as the roots of their numbers do.
BOUND = 1e-4


def agrees(name: str, device: str) -> None:
    model, feeds = ZOO[name].make()
    shapes = {n: a.shape for n, a in feeds.items()}
    compiled = clgraph.compile(model, device, shapes=shapes, config={"strict": True})
    assert worst_error(compiled.run(feeds), expected(model, feeds)) <= BOUND


@pytest.mark.opencl
@pytest.mark.parametrize("name", zoo_names(small=True))
def test_a_small_model_agrees_with_onnxruntime_without_the_host(name: str, device: str) -> None:
    agrees(name, device)


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("name", zoo_names(small=False))
def test_a_model_agrees_with_onnxruntime_without_the_host(name: str, device: str) -> None:
    agrees(name, device)


@pytest.mark.opencl
@pytest.mark.parametrize("name", zoo_names(small=True))
def test_a_small_model_agrees_on_the_host(name: str) -> None:
    model, feeds = ZOO[name].make()
    results = clgraph.compile(model, "host", shapes={n: a.shape for n, a in feeds.items()}).run(feeds)
    assert worst_error(results, expected(model, feeds)) <= BOUND


# Parameters of the published models, less what folding a batch normalization takes away (a vector a layer), the anchors
# and scales that are constants here, and the poolers of the encoders, which are not built.
PARAMETERS = {
    "mobilenet_v2": 3_504_872 - 17_056,
    "mobilenet_v3_small": 2_542_856 - 6_056,
    "efficientnet_b0": 5_288_548 - 21_008,
    "yolov8n_640": 3_151_904 + 3 * 8400 + 2 * 4,
    "minilm_128": 22_713_216 - 384 * 385,
    "bert_base_128": 109_482_240 - 768 * 769,
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * ("bert" in n)) for n in PARAMETERS])
def test_a_model_has_as_many_parameters_as_the_published_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphWriter, "weight", GraphWriter.zeros)
    tensors = ZOO[name].make()[0].graph.initializer
    assert sum(math.prod(t.dims) for t in tensors if t.data_type == TensorProto.FLOAT and t.dims) == PARAMETERS[name]


def functions(name: str) -> Counter[str]:
    """Return how often each function of an activation and each other kind of node is applied, fused or alone."""
    model, feeds = ZOO[name].make()
    compiled = clgraph.compile(model, "null", shapes={n: a.shape for n, a in feeds.items()})
    return Counter(text for node in compiled.program for text in _functions(node))


def _functions(node: Node) -> list[str]:
    p = node.primitive
    whole: list[Primitive] = [p]
    if isinstance(p, Bottleneck):
        whole = [one for convolution, activations in p.parts for one in (convolution, *activations)]
    return [getattr(one, "function", one.kind) for one in (*whole, *(f.primitive for f in node.fused))]


def test_an_encoder_keeps_only_whole_attentions_layer_normalizations_and_gelus() -> None:
    found = functions("small_encoder")
    assert (found["layer_normalization"], found["gelu"]) == (5, 2)
    assert found["attention"] == 2
    assert not found.keys() & {"erf", "pow", "sqrt", "mean", "softmax"}


@pytest.mark.parametrize("spelling", ["", "_operator", "_clip"])
def test_hard_swish_is_one_function_however_it_is_spelled(spelling: str) -> None:
    found = functions(f"small_mobilenet_v3{spelling}")
    # 2 of each of 8 blocks, 1 where a block does not expand; the stem, the last convolution and the classifier.
    assert (found["hard_swish"], found["hard_sigmoid"]) == (19, 9)
    assert not found["clip"]


def test_swish_is_one_function() -> None:
    found = functions("small_efficientnet")
    # 2 a block, 1 in the one block that does not expand, 1 in each gate, the stem and the last convolution.
    assert (found["swish"], found["sigmoid"]) == (2 * 16 - 1 + 16 + 2, 16)


def test_a_detector_keeps_sigmoids_for_its_scores_only() -> None:
    found = functions("small_yolov8")
    assert (found["swish"], found["sigmoid"]) == (57, 1)


def test_batch_normalizations_go_into_the_convolutions() -> None:
    plain, normalized = functions("small_mobilenet_v2"), functions("small_mobilenet_v2_bn")
    assert plain == normalized
