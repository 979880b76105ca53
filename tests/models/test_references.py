"""Whole models through the primitives' references: imports, shape rules and references, without OpenCL."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.demo.pictures import draw_text
from clgraph.demo.recognition import prepare
from tests.support.models import image, light_model
from tests.support.oracle import WHOLE_MODEL, expected, worst_error

PICTURE = 96
"""Rows and columns, of which the last stage has 3, odd as the 7 of 224: NumPy takes a fifth of the time."""

SIZES = {"squeezenet": PICTURE, "shufflenet": 224, "inception_v1": PICTURE, "resnet50": PICTURE}
"""Rows and columns by architecture; the reshapes of one are of those it was exported for."""


@cache
def resnet50() -> onnx.ModelProto:
    return light_model("resnet50", picture=PICTURE)


@pytest.mark.parametrize("name", SIZES)
def test_an_architecture_agrees_with_onnxruntime(name: str) -> None:
    size = SIZES[name]
    model = resnet50() if name == "resnet50" else light_model(name, picture=size)
    feeds = {model.graph.input[0].name: image((1, 3, size, size))}
    results = clgraph.compile(model, device="host").run(feeds)
    assert worst_error(results, expected(model, feeds)) <= WHOLE_MODEL


def test_text_recognition_agrees_with_onnxruntime(fetched: Callable[[str], Path]) -> None:
    path = fetched("ocr-rec")
    feeds = {"x": prepare(draw_text("OpenCL 2026"))}
    results = clgraph.compile(path, device="host").run(feeds)
    assert worst_error(results, expected(path, feeds)) <= WHOLE_MODEL


def test_random_weights_keep_the_values_of_a_deep_network_apart() -> None:
    model = resnet50()
    feeds = {model.graph.input[0].name: image((1, 3, PICTURE, PICTURE))}
    logits = expected(model, feeds)[model.graph.output[1].name]
    assert 0.1 < logits.std() < 10
    assert len(np.unique(logits)) == logits.size


def test_the_architectures_have_no_constant_weights() -> None:
    for tensor in resnet50().graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.size > 1:
            assert array.std() > 0, tensor.name
