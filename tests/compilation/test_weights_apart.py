"""Models saved without weights: these come out of the ONNX file unchanged, or the error says which one did not."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import clgraph
from clgraph.compilation import cache_files, compiler, keeper, model_cache
from clgraph.errors import ClgraphError, ModelError, OptionError
from clgraph.saved.circumstances import recorded, with_recorded
from clgraph.settings import Settings
from tests.support.models import light_model, small_model
from tests.support.saved import feeds_of, rewritten

NESTED = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
nested (float[N, 32] x, bool c) => (float[N, 32] y)
{
  t = own.scaled(x)
  y = If (c) <
    then_branch = taken () => (float[N, 32] a) { w = Constant <value: tensor = float[1] {0}> ()  a = MatMul (t, w) },
    else_branch = left () => (float[N, 32] b) { b = Neg (t) }
  >
}
<opset_import: ["" : 17], domain: "own">
scaled (x) => (z) { v = Constant <value: tensor = float[1] {0}> ()  z = Mul (x, v) }
"""
"""A constant in a function that is expanded, and one in the body of an If: each takes the place of a tensor in it."""


def nested_model() -> onnx.ModelProto:
    model, random = parser.parse_model(NESTED), np.random.default_rng(5)
    for graph in (model.graph.node[1].attribute[0].g, model.functions[0]):
        shape = (32, 32) if graph is not model.functions[0] else (16, 32)
        weight = random.standard_normal(shape).astype(np.float32)
        graph.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(weight))
    return model


def with_weight(model: onnx.ModelProto, name: str, change: float) -> onnx.ModelProto:
    """Return a copy of *model* one of whose weights has another first element."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    tensor = next(t for t in twin.graph.initializer if t.name == name)
    array = numpy_helper.to_array(tensor).copy()
    array.flat[0] += change
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    return twin


@pytest.mark.opencl
def test_a_model_saved_without_weights_gives_the_same_bits(device: str, tmp_path: Path) -> None:
    path = tmp_path / "m.clg"
    light = light_model("squeezenet")
    for source in (light, light.SerializeToString()):
        model = clgraph.compile(source, device, config={"disable_passes": ["hoist_pooling"]})
        model.save(path, weights=False)
        loaded = clgraph.load(path, device, weights_from=source)
        feeds = feeds_of(model)
        for name, array in model.run(feeds).items():
            np.testing.assert_array_equal(loaded.run(feeds)[name], array)
        assert "saved without weights" in loaded.notes[0]
        assert (loaded.inputs, loaded.outputs, loaded.metadata) == (model.inputs, model.outputs, model.metadata)
    assert path.stat().st_size < light.ByteSize() / 50


def test_constants_of_functions_and_bodies_are_found(tmp_path: Path) -> None:
    model = clgraph.compile(nested_model(), "host")
    onnx.save(nested_model(), tmp_path / "m.onnx")
    x = np.random.default_rng(6).standard_normal((16, 32)).astype(np.float32)
    feeds = [{"x": x, "c": np.array(c)} for c in (True, False)]
    expected = [model.run(each)["y"] for each in feeds]
    model.save(tmp_path / "m.clg", weights=False)
    # Two weights of 4 and 2 KiB are not in it.
    assert not any(w in (tmp_path / "m.clg").read_bytes() for w in _weights_of(nested_model()))
    loaded = clgraph.load(tmp_path / "m.clg", "host", weights_from=tmp_path / "m.onnx")
    for each, array in zip(feeds, expected, strict=True):
        np.testing.assert_array_equal(loaded.run(each)["y"], array)
    other = nested_model()
    other.functions[0].node[0].attribute[0].t.raw_data = bytes(16 * 32 * 4)
    with pytest.raises(ModelError, match="was saved without weights, has other values"):
        clgraph.load(tmp_path / "m.clg", "host", weights_from=other)


def _weights_of(model: onnx.ModelProto) -> list[bytes]:
    body, function = model.graph.node[1].attribute[0].g, model.functions[0]
    return [graph.node[0].attribute[0].t.raw_data for graph in (body, function)]


def test_weights_that_are_missing_changed_or_no_use_are_one_error(tmp_path: Path) -> None:
    path, source = tmp_path / "m.clg", small_model(channels=16)
    clgraph.compile(source, "host").save(path, weights=False)
    with pytest.raises(ModelError, match=r"saved without weights, such as 'b0'.*--weights-from"):
        clgraph.load(path, "host")
    with pytest.raises(ModelError, match=r"saved without weights, such as 'b0'.*--weights-from"):
        clgraph.compile(path, "host")
    with pytest.raises(ModelError, match=r"'b0' \(f32\[16\]\) of .*m.clg, .* has other values"):
        clgraph.load(path, "host", weights_from=with_weight(source, "b0", 1.0))
    with pytest.raises(ModelError, match=r"'b0' .* is missing in the model of the weights"):
        clgraph.load(path, "host", weights_from=light_model("squeezenet"))
    with pytest.raises(ModelError, match="there is no file"):
        clgraph.load(path, "host", weights_from=tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="saved model"):
        clgraph.load(path, "host", weights_from=path)
    onnx.save(source, tmp_path / "m.onnx")
    with pytest.raises(OptionError, match="weights-from"):
        clgraph.load(tmp_path / "m.onnx", "host", weights_from=source)
    loaded = clgraph.load(path, "host", weights_from=source)
    loaded.save(path)
    with pytest.raises(OptionError, match="contains its weights"):
        clgraph.load(path, "host", weights_from=source)


def test_what_is_no_weight_or_option_is_damaged(tmp_path: Path) -> None:
    path, source = tmp_path / "m.clg", small_model()
    clgraph.compile(source, "host").save(path, weights=False)
    good = path.read_bytes()
    for part in ("withheld", "options"):
        for bad in (3, [[1]], [["0", "w0", "F32", ["n"]]], {"device": "gpu"}, {"strict": [1]}):
            path.write_bytes(good)
            rewritten(path, lambda header, name=part, value=bad: header.update({name: value}))
            with pytest.raises(ClgraphError, match=r"damaged|strict"):
                clgraph.load(path, "host", weights_from=source)


def test_options_are_those_of_the_model_but_for_those_that_are_given(tmp_path: Path) -> None:
    path, source = tmp_path / "m.clg", small_model(channels=16)
    options = {"disable_passes": ["sink_scales", "merge_groups"], "stop_after": "convert_precision"}
    every = Settings().with_(
        placement={"*": "host"}, keep_f32=["b", "a"], strict=True, weight_group=32, force_kernels={"a": "b.ref"}
    )
    assert with_recorded(Settings(), json.loads(json.dumps(recorded(every))), ()) == every
    clgraph.compile(source, "null", config=options).save(path, weights=False)

    def passes(**config: object) -> set[str]:
        return {p.name for p in clgraph.load(path, "null", config=config, weights_from=source).passes}

    assert passes().isdisjoint({"sink_scales", "merge_groups", "hoist_pooling"})
    assert "merge_groups" not in passes(stop_after="build_kernels")
    assert passes(stop_after="build_kernels", disable_passes=["sink_scales"]) >= {"merge_groups", "hoist_pooling"}


@pytest.mark.opencl
def test_open_sizes_come_out_of_the_cache_the_second_time(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_files, "SETTLED_SECONDS", 0.03)
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    monkeypatch.setattr(model_cache, "third_party", frozenset)
    source = small_model(channels=16, size="n")
    model = clgraph.compile(source, device, cache_dir=tmp_path / "cache", config={"model_cache": 0})
    feeds = [{"x": np.random.default_rng(n).standard_normal((1, 3, n, n)).astype(np.float32)} for n in (12, 20, 16)]
    expected = [model.run(each)["y"] for each in feeds]
    model.save(tmp_path / "m.clg", weights=False)
    onnx.save(source, tmp_path / "m.onnx")
    time.sleep(0.06)

    def load() -> clgraph.Model:
        weights, config = tmp_path / "m.onnx", {"model_cache": 64}
        return clgraph.load(
            tmp_path / "m.clg", device, cache_dir=tmp_path / "cache", config=config, weights_from=weights
        )

    for started in ("compiled anew", "out of the model cache"):
        loaded = load()
        for each, array in zip(feeds, expected, strict=True):
            np.testing.assert_array_equal(loaded.run(each)["y"], array)
        assert started in loaded.notes[0]
        monkeypatch.setattr(compiler.Compiler, "specialise", None)
    monkeypatch.undo()
    onnx.save(with_weight(source, "w1", 1.0), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"'w1' .* has other values"):
        load()
