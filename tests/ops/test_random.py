"""Random numbers: the generator, what is drawn of it, and that a run draws anew where there is no seed."""

from __future__ import annotations

from math import sqrt

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.random_numbers import RANDOM_KEY, folded, fresh_key, philox
from clgraph.ops.random import Random
from clgraph.passes.memory.split_batch import slice_of
from tests.support.check_op import check_op
from tests.support.onnx_case import one_node

KEY = np.array([0xA4093822, 0x299F31D0], np.uint32)


@pytest.mark.parametrize(
    ("counter", "key", "wanted"),
    [
        ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_generator_gives_the_words_that_its_authors_publish(counter, key, wanted):
    assert tuple(philox(counter, key)) == wanted
    assert philox((np.arange(5), 0, 0, 0), key).shape == (4, 5)


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(7, 5), (), (0, 3), (4099,)])
def test_kernels_draw_what_the_reference_draws(shape, engine):
    draw = {0: lambda rng, s: KEY}
    uniform = Random(False, -2.0, 3.0, shape, stream=0xFFFFFFF0)
    found = check_op(engine, uniform, (2,), dtype=DType.U32, draw=draw, families=("normal",))
    assert ("random.rows" in found) == (engine.device.info.kind == "cpu" and 0 not in shape)
    # The logarithm is within 3 ulps and its root within 4, cosine and sine within 4, product and sum round once each:
    # 12 ulps of the largest radius, sqrt(48 log 2) = 5.8, and of the mean; 24 units of 2^-24.
    normal = Random(True, 1.0, 4.0, shape, stream=3)
    check_op(
        engine, normal, (2,), dtype=DType.U32, draw=draw, families=("normal",), ulps=24, scale=lambda key: 4 * 5.8 + 1
    )


def test_a_key_is_two_words():
    for dtype, shape in ((DType.U32, (3,)), (DType.I32, (2,))):
        with pytest.raises(ShapeError, match="the key of random numbers is u32"):
            Random(False, 0.0, 1.0, (3,)).infer([Layout(dtype, shape)])


def host(model, feeds, times=1, **more):
    """Return what runs of *model* give, one a time, the only output of each."""
    with clgraph.compile(model, more.pop("device", "host"), **more) as compiled:
        return [next(iter(compiled.run(feeds).values())) for _ in range(times)]


def without_seed(op_type, inputs, *, opset=22, **attributes):
    return one_node(op_type, inputs, opset=opset, **attributes)


N = 40000
X = np.zeros((4, N // 4), np.float32)


def test_numbers_have_the_mean_and_the_deviation_asked_for():
    # The mean of N numbers is within five of its deviations but once in two million; the seed is the test's.
    (y,) = host(*one_node("RandomUniformLike", [X], opset=22, low=-1.0, high=3.0, seed=5.0))
    assert -1 <= y.min() < -0.99
    assert 2.99 < y.max() <= 3
    assert abs(y.mean() - 1) < 5 * (4 / sqrt(12)) / sqrt(N)
    (y,) = host(*one_node("RandomNormalLike", [X], opset=1, mean=2.0, scale=3.0, seed=5.0))
    assert abs(y.mean() - 2) < 5 * 3 / sqrt(N)
    assert abs(y.std() - 3) < 5 * 3 / sqrt(2 * N)
    assert abs(np.corrcoef(y.ravel()[:-1], y.ravel()[1:])[0, 1]) < 5 / sqrt(N)


@pytest.mark.parametrize(
    ("op_type", "more", "dtype"),
    [
        ("RandomUniform", {"shape": [3, 4]}, "float32"),
        ("RandomNormal", {"shape": [3, 4], "dtype": TensorProto.DOUBLE}, "float64"),
        ("RandomNormalLike", {}, "float16"),
        ("RandomUniformLike", {"dtype": TensorProto.FLOAT}, "float32"),
        ("Bernoulli", {"dtype": TensorProto.INT8}, "int8"),
        ("Bernoulli", {}, "float16"),
        ("Multinomial", {"sample_size": 4}, "int32"),
        ("Multinomial", {"sample_size": 4, "dtype": TensorProto.INT64}, "int64"),
    ],
)
def test_a_seed_gives_the_same_numbers_again_and_none_gives_others(op_type, more, dtype):
    inputs = [] if op_type in ("RandomUniform", "RandomNormal") else [np.full((3, 40), 0.5, np.float16)]
    one, other = host(*one_node(op_type, inputs, opset=22, seed=1.5, **more), times=2)
    (third,) = host(*one_node(op_type, inputs, opset=22, seed=2.5, **more))
    assert one.dtype == dtype
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)
    first, second = host(*without_seed(op_type, inputs, **more), times=2)
    assert first.dtype == dtype
    assert first.shape == one.shape
    assert not np.array_equal(first, second)


def test_probabilities_of_0_and_1_and_others_are_met():
    p = np.repeat(np.array([0, 1, 0.25], np.float32), N).reshape(3, N)
    (y,) = host(*one_node("Bernoulli", [p], opset=15, seed=3.0))
    assert not y[0].any()
    assert y[1].all()
    assert abs(y[2].mean() - 0.25) < 5 * sqrt(0.25 * 0.75 / N)


def test_classes_are_drawn_by_their_probabilities():
    p = np.array([[0.5, 0.125, 0.375], [1.0, 0.0, 0.0]])
    with np.errstate(divide="ignore"):
        logarithms = (np.log(p) + 7).astype(np.float32)
    (y,) = host(*one_node("Multinomial", [logarithms], opset=7, sample_size=N, seed=3.0))
    assert not y[1].any()
    for i, share in enumerate(p[0]):
        assert abs((y[0] == i).mean() - share) < 5 * sqrt(share * (1 - share) / N)


DROP = """<ir_version: 10, opset_import: ["": 22]> g (float[4, 1000] x) => (float[4, 1000] y, bool[4, 1000] kept) {
    r = Constant <value = float {0.25}> ()
    t = Constant <value = bool {1}> ()
    y, kept = Dropout (x, r, t)
}"""


@pytest.mark.opencl
def test_a_device_draws_anew_each_run_and_the_key_gives_the_numbers_of_the_host(device, monkeypatch, tmp_path):
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    model = parser.parse_model(DROP)
    x = np.arange(1, 4001, dtype=np.float32).reshape(4, 1000)
    compiled = clgraph.compile(model, device)
    assert [s.name for s in compiled.inputs] == ["x"]
    assert all(RANDOM_KEY not in str(s) for s in compiled.inputs)
    runs = [compiled.run({"x": x}) for _ in range(2)]
    runs.append(dict(zip(("y", "kept"), compiled(x), strict=True)))
    compiled.save(tmp_path / "drop.clg")
    loaded = clgraph.load(tmp_path / "drop.clg", device)
    assert [s.name for s in loaded.inputs] == ["x"]
    runs += [loaded.run({"x": x}), compiled.clone().run({"x": x})]
    masks = [r["kept"] for r in runs]
    assert len({m.tobytes() for m in masks}) == len(masks)
    for r in runs:
        np.testing.assert_allclose(r["y"], np.where(r["kept"], x / np.float32(0.75), 0), rtol=3e-7)
        assert abs(r["kept"].mean() - 0.75) < 5 * sqrt(0.25 * 0.75 / 4000)
    mine, theirs = (clgraph.compile(model, d).run({"x": x, RANDOM_KEY: KEY}) for d in (device, "host"))
    np.testing.assert_array_equal(mine["kept"], theirs["kept"])
    np.testing.assert_array_equal(compiled.run({"x": x, RANDOM_KEY: KEY})["kept"], mine["kept"])


@pytest.mark.opencl
def test_members_of_a_family_draw_anew_and_a_batch_is_not_drawn_in_slices(device):
    compiled = clgraph.compile(parser.parse_model(DROP.replace("[4, 1000]", "[N, 1000]")), device)
    for rows in (4, 6, 4):
        one, other = (compiled.run({"x": np.ones((rows, 1000), np.float32)})["kept"] for _ in range(2))
        assert not np.array_equal(one, other)
        assert len({row.tobytes() for row in one}) == rows
    assert isinstance(slice_of(load_onnx(parser.parse_model(DROP)).build(), 2), str)


def test_nodes_of_one_model_draw_different_numbers():
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 22]> g () => (float[9] a, float[9] b) {
        a = RandomUniform <shape = [9]> ()
        b = RandomUniform <shape = [9]> ()
    }""")
    y = clgraph.compile(model, "host").run({})
    assert not np.array_equal(y["a"], y["b"])


LOOP = """<ir_version: 10, opset_import: ["": 22]> g (int64 n, float[3] s) => (float[3] end, float[N, 3] rows) {
    end, rows = Loop (n, "", s) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w, float[3] r) {
      d = Identity (c)
      w = Identity (v)
      r = RandomUniformLike (v)
    }>
}"""
SCAN = """<ir_version: 10, opset_import: ["": 22]> g (float[5, 3] x) => (float[5, 3] rows) {
    rows = Scan (x) <num_scan_inputs = 1, body = b (float[3] v) => (float[3] r) { r = RandomUniformLike (v) }>
}"""
SCAN_8 = """<ir_version: 10, opset_import: ["": 8]> g (float[2, 5, 3] x) => (float[2, 5, 3] rows) {
    rows = Scan ("", x) <num_scan_inputs = 1, body = b (float[3] v) => (float[3] r) { r = RandomUniformLike (v) }>
}"""


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        (LOOP, {"n": np.array(5, np.int64), "s": np.zeros(3, np.float32)}),
        (SCAN, {"x": np.zeros((5, 3), np.float32)}),
        (SCAN_8, {"x": np.zeros((2, 5, 3), np.float32)}),
    ],
)
def test_trips_of_a_loop_draw_different_numbers_and_the_key_gives_them_again(text, feeds):
    compiled = clgraph.compile(parser.parse_model(text), "host")
    assert RANDOM_KEY not in [s.name for s in compiled.inputs]
    one, other = (compiled.run(feeds)["rows"] for _ in range(2))
    assert not np.array_equal(one, other)
    rows = one.reshape(-1, 3)
    assert len({row.tobytes() for row in rows}) == len(rows)
    again = [compiled.run({**feeds, RANDOM_KEY: KEY})["rows"] for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_keys_of_trips_differ_and_so_do_those_of_runs():
    found = {folded(KEY, i).tobytes() for i in (0, 1, 2, 1 << 32)} | {KEY.tobytes(), fresh_key().tobytes()}
    assert len(found) == 6


def test_a_model_whose_value_has_the_name_of_the_key_is_refused():
    x = helper.make_tensor_value_info(RANDOM_KEY, TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    node = helper.make_node("RandomUniformLike", [RANDOM_KEY], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 22)])
    with pytest.raises(UnsupportedError, match="has a value called"):
        clgraph.compile(model, "host")
    onnx.checker.check_model(model)
