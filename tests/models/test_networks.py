"""Whole models on an OpenCL device against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.demo.pictures import draw_text
from clgraph.demo.recognition import characters_of, decode, prepare
from clgraph.ops.convolution import Convolution
from tests.support.models import HEAVY, image, light_model, light_names, small_model
from tests.support.oracle import WHOLE_MODEL, expected, session, worst_error

pytestmark = pytest.mark.opencl


def test_a_small_network_of_every_hot_kind_agrees_with_onnxruntime(device: str) -> None:
    for channels, size in ((8, 10), (16, 16), (33, 7)):
        model = small_model(channels, size)
        feeds = {"x": image((1, 3, size, size))}
        results = clgraph.compile(model, device).run(feeds)
        assert worst_error(results, expected(model, feeds)) <= 1e-5


@pytest.mark.parametrize("out_of_order", [False, True])
def test_models_that_share_a_device_run_from_many_threads(out_of_order: bool, device: str) -> None:
    config = {"out_of_order": out_of_order}
    models = [clgraph.compile(small_model(8 + 9 * i, 10 + i, i), device, config=config) for i in range(3)]
    inputs = [image((1, 3, 10 + i, 10 + i), i) for i in range(3)]
    wanted = [model(x) for model, x in zip(models, inputs, strict=True)]

    def runs_alike(i: int) -> bool:
        model, x, y = models[i % 3], inputs[i % 3], wanted[i % 3]
        return all(np.array_equal(model(x), y) for _ in range(20))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(runs_alike, range(12)))


def test_every_node_of_resnet50_runs_on_the_device_and_it_agrees_with_onnxruntime_run_after_run(device: str) -> None:
    model = light_model("resnet50")
    compiled = clgraph.compile(model, device, config={"strict": True})
    assert len({node.placement for node in compiled.explain().nodes}) == 1
    theirs = session(model, threads=1)
    names = [output.name for output in theirs.get_outputs()]
    for seed in (0, 1):
        feeds = {model.graph.input[0].name: image((1, 3, 224, 224), seed)}
        wanted = dict(zip(names, theirs.run(None, feeds), strict=True))
        assert worst_error(compiled.run(feeds), wanted) <= WHOLE_MODEL


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in HEAVY)) for n in light_names() if n != "resnet50"]
)
def test_an_architecture_agrees_with_onnxruntime(name: str, device: str) -> None:
    model = light_model(name)
    value = model.graph.input[0]
    feeds = {value.name: image(tuple(d.dim_value for d in value.type.tensor_type.shape.dim))}
    results = clgraph.compile(model, device, config={"strict": True}).run(feeds)
    assert worst_error(results, expected(model, feeds)) <= WHOLE_MODEL


def test_text_direction_agrees_with_onnxruntime(fetched: Callable[[str], Path], device: str) -> None:
    path = fetched("ocr-cls")
    feeds = {"x": image((1, 3, 48, 192))}
    assert worst_error(clgraph.compile(path, device).run(feeds), expected(path, feeds)) <= WHOLE_MODEL


@pytest.mark.parametrize("text", ["OpenCL 2026", "clgraph reads a longer line of text than that, 0123456789"])
def test_text_recognition_agrees_with_onnxruntime_and_reads(
    text: str, fetched: Callable[[str], Path], device: str
) -> None:
    path = fetched("ocr-rec")
    model = clgraph.compile(path, device)
    feeds = {"x": prepare(draw_text(text))}
    results = model.run(feeds)
    assert worst_error(results, expected(path, feeds)) <= WHOLE_MODEL
    (probabilities,) = results.values()
    answer, confidence = decode(probabilities[0], characters_of(model.metadata["character"]))
    assert answer.strip() == text
    assert confidence > 0.9


def test_a_batch_of_nothing_runs_and_leaves_the_model_usable(device: str) -> None:
    net = clgraph.Topology()
    x = net.input("x", ("n", 16, 12, 12))
    w = net.constant("w", image((32, 16, 3, 3), 1))
    net.output("y", net.add("conv", Convolution(pads=((1, 1), (1, 1))), x, w))
    model = clgraph.compile(net, device)
    one = image((1, 16, 12, 12))
    wanted = model(one)
    assert model(one[:0]).shape == (0, 32, 12, 12)
    assert np.array_equal(model(one), wanted)
