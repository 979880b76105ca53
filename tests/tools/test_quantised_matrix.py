"""Quantised files against ONNX Runtime, layer by layer: each is given what ONNX Runtime gives it."""

from __future__ import annotations

import dataclasses
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import clgraph
from tests.support.graph_writer import GraphWriter
from tests.support.onnx_case import onnxruntime_outputs
from tests.support.zoo import TINY
from tests.support.zoo_text import encoder, tokens
from tools.benchmark.quantised_layers import agreement, cuts, layers

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> Any:
    pytest.importorskip("onnxruntime")
    loader = SourceFileLoader("quantised_matrix", str(ROOT / "tools" / "quantised_matrix"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _pictures() -> tuple[onnx.ModelProto, dict[str, Any]]:
    g = GraphWriter("pictures", 3)
    x = g.input("x", (1, 3, 20, 20))
    first = g.add("Relu", g.conv(x, 3, 24, 3, stride=2))
    wide = g.add("Clip", g.conv(first, 24, 24, 3, groups=24), g.number(0.0), g.number(6.0))
    both = g.add("Add", first, g.conv(wide, 24, 24))
    mean = g.add("Flatten", g.add("GlobalAveragePool", g.add("MaxPool", both, kernel_shape=[2, 2], strides=[2, 2])))
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 3, 20, 20)).astype(np.float32)}
    return g.model(g.linear(mean, 24, 10)), feeds


def _text() -> tuple[onnx.ModelProto, dict[str, Any]]:
    return encoder(dataclasses.replace(TINY, layers=1), 1, 11), dict(tokens(1, 11, TINY.vocabulary))


@pytest.mark.opencl
@pytest.mark.parametrize(("made", "forms"), [(_pictures, ("qdq-channels", "qoperator", "dynamic")), (_text, ("qdq",))])
def test_each_layer_alone_is_within_a_step_of_onnxruntimes(tool, tmp_path, made, forms):
    model, feeds = made()
    source = tmp_path / "floats.onnx"
    onnx.save(model, source)
    for form in forms:
        target = tmp_path / f"{form}.onnx"
        tool.quantise(source, target, form, feeds)
        found = tool.by_layers(target, feeds)
        assert len(found["off"]) >= 5
        for way, of in found.items():
            assert [(form, way, a.layer.name, a.near) for a in of if a.near < tool.NEAR] == []


@pytest.mark.opencl
@pytest.mark.parametrize("form", ["qdq", "qdq-channels", "qdq-u8", "qdq-symmetric", "qoperator"])
def test_a_file_of_pictures_has_onnxruntimes_bits_where_that_fuses_integers_of_both_signs(tool, tmp_path, form):
    model, feeds = _pictures()
    onnx.save(model, tmp_path / "floats.onnx")
    tool.quantise(tmp_path / "floats.onnx", tmp_path / "made.onnx", form, feeds)
    (got,) = clgraph.compile(tmp_path / "made.onnx").run(feeds).values()
    (want,) = onnxruntime_outputs(onnx.load(tmp_path / "made.onnx"), feeds, optimised=True, int8=True)
    np.testing.assert_array_equal(got, want)


def test_a_layer_reads_integers_and_ends_at_the_next(tool, tmp_path):
    model, feeds = _pictures()
    onnx.save(model, tmp_path / "floats.onnx")
    tool.quantise(tmp_path / "floats.onnx", tmp_path / "made.onnx", "qdq", feeds)
    made = onnx.load(tmp_path / "made.onnx")
    values = dict.fromkeys(cuts(made), np.zeros((1, 1), np.int8)) | feeds
    values |= {o.name: np.zeros((1, 1), np.float32) for o in made.graph.output}
    found = {layer.kinds: layer for layer in layers(made, values)}
    convolution = found[("Conv", "Relu")] if ("Conv", "Relu") in found else found[("Conv",)]
    assert [i.type.tensor_type.elem_type for i in convolution.model.graph.input] == [onnx.TensorProto.INT8]
    one = agreement(convolution, np.array([3, 4, 5], np.int8), np.array([3, 5, 9], np.int8))
    assert (one.equal, one.near) == (1 / 3, 2 / 3)
