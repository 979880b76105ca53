"""Whole models through the primitives' references: imports, shape rules and references, without OpenCL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.demo.pictures import draw_text
from clgraph.demo.recognition import prepare
from tests.support.models import image, light_model
from tests.support.oracle import WHOLE_MODEL, expected, worst_error


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v1", "resnet50"])
def test_an_architecture_agrees_with_onnxruntime(name: str) -> None:
    model = light_model(name)
    feeds = {model.graph.input[0].name: image((1, 3, 224, 224))}
    results = clgraph.compile(model, device="host").run(feeds)
    assert worst_error(results, expected(model, feeds)) <= WHOLE_MODEL


def test_text_recognition_agrees_with_onnxruntime(fetched: Callable[[str], Path]) -> None:
    path = fetched("ocr-rec")
    feeds = {"x": prepare(draw_text("OpenCL 2026"))}
    results = clgraph.compile(path, device="host").run(feeds)
    assert worst_error(results, expected(path, feeds)) <= WHOLE_MODEL


def test_random_weights_keep_the_values_of_a_deep_network_apart() -> None:
    model = light_model("resnet50")
    feeds = {model.graph.input[0].name: image((1, 3, 224, 224))}
    logits = expected(model, feeds)[model.graph.output[1].name]
    assert 0.1 < logits.std() < 10
    assert len(np.unique(logits)) == logits.size


def test_the_architectures_have_no_constant_weights() -> None:
    for tensor in light_model("resnet50").graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.size > 1:
            assert array.std() > 0, tensor.name
