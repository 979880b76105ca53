"""Operators as they were before operator set 7, against their definitions: onnxruntime does not read them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import clgraph
from clgraph.errors import ClgraphError, ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node, reference_outputs

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def results(op_type, inputs, *, opset=6, **more):
    model, feeds = one_node(op_type, inputs, opset=opset, **more)
    return reference_outputs(load_onnx(model).build(), feeds)


def assert_rounded(found, wanted, roundings, size=None):
    """Assert that *found* and *wanted* are so many roundings of float32 apart, each relative to *size*."""
    np.testing.assert_array_less(
        np.abs(found - np.asarray(wanted, np.float64)),
        roundings * 2.0**-24 * np.abs(wanted if size is None else size) + 1e-37,
    )


ROW, COLUMN, MIDDLE, SCALAR = draw(5), draw(2), draw(3, 4), draw(1, 1)


def normalised(x, over, scale, bias, mean=None, variance=None):
    mean = x.mean(over, keepdims=True) if mean is None else mean
    variance = x.var(over, keepdims=True) if variance is None else variance
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


def magnitude(x, over, scale, bias, mean=None, variance=None):
    """Return what the roundings of :func:`normalised` are relative to: two sums, and a dozen operations.

    An error of x - mean is relative to what is subtracted, and one of the deviation is at most as large.
    """
    mean = x.mean(over, keepdims=True) if mean is None else mean
    variance = x.var(over, keepdims=True) if variance is None else variance
    return (abs(x) + abs(mean)) / np.sqrt(variance + 1e-5) * abs(scale) + abs(bias)


@pytest.mark.parametrize(
    ("b", "axis", "wide"),
    [
        (ROW, None, ROW),
        (draw(4, 5), None, None),
        (MIDDLE, 1, MIDDLE[:, :, None]),
        (MIDDLE, -3, MIDDLE[:, :, None]),
        (COLUMN, 0, COLUMN[:, None, None, None]),
        (draw(3, 1), 1, None),
        (SCALAR, None, SCALAR),
        (SCALAR, 2, SCALAR),
        (draw(), None, None),
    ],
)
@pytest.mark.parametrize(
    ("op_type", "function"),
    [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide), ("Less", np.less)],
)
def test_the_second_operand_lies_at_an_axis_of_the_first(op_type, function, b, axis, wide):
    wide = b[..., None] if wide is None and b.shape == (3, 1) else b if wide is None else wide
    at = {} if axis is None else {"axis": axis}
    (y,) = results(op_type, [X, b], broadcast=1, **at)
    np.testing.assert_array_equal(y, function(X, wide))


def test_logic_and_powers_are_aligned_too():
    for op_type, function in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
        a, b = X > 0, MIDDLE > 0
        np.testing.assert_array_equal(results(op_type, [a, b], broadcast=1, axis=1)[0], function(a, b[:, :, None]))
    (y,) = results("Pow", [abs(X), COLUMN], broadcast=1, axis=0)
    assert_rounded(y, abs(X) ** COLUMN[:, None, None, None], 2 * 2)  # an ulp of each power
    for op_type, function in (("Equal", np.equal), ("Greater", np.greater)):
        a, b = (X > 0).astype(np.int32), (COLUMN > 0).astype(np.int32)
        a, b = (a, b) if op_type == "Equal" else (X, COLUMN)
        (y,) = results(op_type, [a, b], broadcast=1, axis=0)
        np.testing.assert_array_equal(y, function(a, b[:, None, None, None]))


@pytest.mark.parametrize(
    ("b", "more"),
    [(ROW, {}), (draw(1), {}), (MIDDLE, {"broadcast": 1}), (MIDDLE, {"broadcast": 1, "axis": 2}), (ROW, {"axis": 3})],
)
def test_what_does_not_lie_there_or_is_not_to_be_broadcast_is_refused(b, more):
    with pytest.raises(ShapeError, match=r"'node/0.*(does not lie in|only where broadcast=1)"):
        results("Add", [X, b], **more)


def test_slopes_of_prelu_are_those_of_channels():
    for slope, wide in ((draw(3), (3, 1, 1)), (draw(1), (1,)), (draw(2, 3, 4, 5), (2, 3, 4, 5)), (draw(), ())):
        for opset in (1, 6):
            (y,) = results("PRelu", [X, slope], opset=opset)
            np.testing.assert_array_equal(y, np.where(X < 0, X * slope.reshape(wide), X))


def test_attributes_that_became_inputs():
    (y,) = results("Pad", [X], opset=1, paddings=[0, 0, 1, 2, 0, 0, 0, 1], value=2.0)
    np.testing.assert_array_equal(y, np.pad(X, [(0, 0), (0, 0), (1, 0), (2, 1)], constant_values=2))
    (y,) = results("Reshape", [X], opset=1, shape=[0, -1, 5])
    np.testing.assert_array_equal(y, X.reshape(2, 12, 5))
    (y,) = results("Upsample", [X], opset=1, height_scale=2.0, width_scale=3.0)
    np.testing.assert_array_equal(y, X.repeat(2, 2).repeat(3, 3))
    (y,) = results("Tile", [X, np.float32(3), np.float32(1)], opset=1, constant=(1, 2))
    np.testing.assert_array_equal(y, np.tile(X, (1, 3, 1, 1)))
    (y,) = results("Concat", [X, X], opset=1)
    np.testing.assert_array_equal(y, np.concatenate([X, X], 1))
    a, b = results("Split", [X, np.array([1, 2], np.float32)], opset=1, constant=(1,), outputs=2, axis=1)
    np.testing.assert_array_equal(a, X[:, :1])
    np.testing.assert_array_equal(b, X[:, 1:])
    (y,) = results("Clip", [X], opset=1, max=0.5)
    np.testing.assert_array_equal(y, np.minimum(X, np.float32(0.5)))


def test_a_split_of_version_1_says_its_axis():
    with pytest.raises(UnsupportedError, match="does not define a default for axis"):
        results("Split", [X], opset=1, outputs=2)


@pytest.mark.parametrize("name", ["FLOAT", "double", "Float16", "INT64", "INT32", "uint8", "BOOL"])
def test_a_type_is_named_where_it_is_cast_to(name):
    (y,) = results("Cast", [X], opset=1, to=name)
    wanted = {"FLOAT": "float32", "DOUBLE": "float64"}.get(name.upper(), name.lower())
    assert y.dtype == wanted
    np.testing.assert_array_equal(y, X.astype(wanted))
    with pytest.raises(UnsupportedError, match="'STRING' is not one of FLOAT"):
        results("Cast", [X], opset=1, to="STRING")


def test_defaults_of_selu_had_fewer_digits():
    elu = np.where(X < 0, np.float32(1.6732) * np.expm1(X), X)
    # An ulp of the exponential, two products.
    assert_rounded(results("Selu", [X], opset=1)[0], np.float32(1.0507) * elu, 2 * (2 + 2))


def test_norms_of_any_order_are_pooled():
    # An ulp of each power, sums of 20 positive numbers, an ulp of the root.
    (y,) = results("GlobalLpPool", [X], opset=1, p=3.0)
    assert_rounded(y, (abs(X) ** 3).sum((2, 3), keepdims=True) ** (1 / 3), 2 * (2 + 20 + 2))
    (y,) = results("LpPool", [X], opset=1, p=2.0, kernel_shape=[4, 5])
    assert_rounded(y, np.sqrt((X**2).sum((2, 3), keepdims=True)), 2 * (2 + 20 + 2))


def test_a_window_larger_than_the_map_has_the_norm_of_what_it_covers():
    (y,) = results("LpPool", [np.float32([[[3]]])], opset=18, kernel_shape=[2], strides=[3])
    np.testing.assert_array_equal(y, np.float32([[[3]]]))


def test_a_window_of_pads_alone_has_no_norm():
    with pytest.raises(ShapeError, match="does not fit 0 elements"):  # as ONNX Runtime and the other pools say
        results("LpPool", [np.zeros((1, 2, 0), np.float32)], opset=18, kernel_shape=[3], strides=[3], pads=[1, 1])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_norm_of_0_leaves_zeros_of_constants_too(dtype):
    (y,) = results("LpNormalization", [np.array([[0, 2], [0, 0]], dtype)], opset=18, constant=(0,), axis=0)
    np.testing.assert_array_equal(y, np.array([[0, 1], [0, 0]], dtype))


def test_numbers_whose_squares_are_0_have_a_norm_of_0():
    x = np.float32([[1e-38, 2], [0, -1e-30]])
    for dtype in (np.float32, np.float64):  # doubles hold the squares
        agree("LpNormalization", [x.astype(dtype)], opset=18, axis=0)


def test_gemm_and_sums_are_what_they_are_now():
    a, b, bias = draw(3, 2), draw(4, 2), draw(4)
    for opset in (1, 6):
        (y,) = results("Gemm", [a, b, bias], opset=opset, transB=1, broadcast=1, alpha=0.5, beta=2.0)
        # Two products and their sum, two factors and a summand.
        assert_rounded(y, 0.5 * a @ b.T + 2 * bias, 2 * (2 + 3), 0.5 * abs(a) @ abs(b.T) + 2 * abs(bias))
    for op_type, wanted in (("Sum", X + X), ("Mean", X), ("Max", X), ("Min", X)):
        np.testing.assert_array_equal(results(op_type, [X, X], opset=1)[0], wanted)
    (y,) = results("AveragePool", [X], opset=1, kernel_shape=[2, 2], pads=[1, 1, 0, 0], strides=[2, 2])
    assert y[0, 0, 0, 0] == X[0, 0, 0, 0]  # pads do not count
    scale, bias = draw(3), draw(3)
    (y,) = results("InstanceNormalization", [X, scale, bias], opset=1)
    normal = X, (2, 3), scale[:, None, None], bias[:, None, None]
    assert_rounded(y, normalised(*normal), 2 * (2 * 20 + 8), magnitude(*normal))


@pytest.mark.parametrize(("op_type", "opsets"), [("RNN", (1,)), ("GRU", (1, 3)), ("LSTM", (1,))])
def test_recurrent_layers_are_those_of_version_7(op_type, opsets):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    inputs = [draw(4, 2, 3), draw(1, gates * 5, 3), draw(1, gates * 5, 5), draw(1, 2 * gates * 5)]
    wanted = results(op_type, inputs, opset=7, hidden_size=5, outputs=2)
    for opset in opsets:
        found = results(op_type, inputs, opset=opset, hidden_size=5, outputs=2, output_sequence=1)
        for mine, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 14, 15])
def test_statistics_of_a_batch_are_computed_and_kept(opset):
    scale, bias, mean, variance = draw(3), draw(3), draw(3), abs(draw(3))
    trains = {"is_test": 0} if opset < 7 else {"training_mode": 1} if opset >= 14 else {}
    trains |= {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
    outputs = 3 if opset >= 14 else 5
    found = results(
        "BatchNormalization", [X, scale, bias, mean, variance], opset=opset, outputs=outputs, momentum=0.75, **trains
    )
    exact = X.astype(np.float64)
    new = exact.mean((0, 2, 3)), exact.var((0, 2, 3))
    normal = exact, (0, 2, 3), scale[:, None, None], bias[:, None, None]
    wanted = [normalised(*normal), 0.75 * mean + 0.25 * new[0], 0.75 * variance + 0.25 * new[1], *new]
    mean_of = np.abs(exact).mean((0, 2, 3))
    sizes = [magnitude(*normal), 0.75 * abs(mean) + 0.25 * mean_of, wanted[2], mean_of, new[1]]
    for mine, theirs, size in zip(found, wanted, sizes, strict=False):
        assert_rounded(mine, theirs, 2 * 40 + 8, size)


@pytest.mark.parametrize("opset", [6, 7])
def test_statistics_of_a_feature(opset):
    scale, bias, mean, variance = draw(3, 4, 5), draw(3, 4, 5), draw(3, 4, 5), abs(draw(3, 4, 5))
    tests = {"is_test": 1} if opset < 7 else {}
    run = partial(results, "BatchNormalization", [X, scale, bias, mean, variance], opset=opset, spatial=0)
    given = X, 0, scale, bias, mean, variance
    assert_rounded(run(**tests)[0], normalised(*given), 2 * 8, magnitude(*given))
    found, drawn = run(outputs=5), given[:4]
    assert_rounded(found[0], normalised(*drawn), 2 * (2 * 2 + 8), magnitude(*drawn))
    assert_rounded(found[4], X.var(0), 2 * (2 * 2 + 2), X.std(0) * (abs(X).max(0) + abs(X.mean(0))))
    with pytest.raises(ShapeError, match=r"want shape \[3, 4, 5\], not \[3\]"):
        results("BatchNormalization", [X, *[draw(3)] * 4], opset=opset, spatial=0, **tests)


def test_halves_are_normalised_as_floats_and_odd_ranks_too():
    x = (draw(64) * 100 + 1000).astype(np.float16)
    one = np.ones(1, np.float16)
    y, *_ = results("BatchNormalization", [x, one, 0 * one, one, one], opset=14, outputs=3, training_mode=1)
    assert y.dtype == np.float16
    # Rounded to a half once, beside sums of 64 in float32.
    given = x.astype(np.float64), 0, 1, 0
    wanted = normalised(*given)
    assert_rounded(y, wanted, 1, 2.0**13 * abs(wanted) + (2 * 64 + 8) * magnitude(*given))


def test_a_node_that_does_not_train_has_one_result():
    with pytest.raises(UnsupportedError, match="in training only"):
        results("BatchNormalization", [X, *[draw(3)] * 4], opset=15, outputs=3)


@pytest.mark.opencl
def test_training_and_alignment_run_on_the_device(device, monkeypatch):
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    model, feeds = one_node(
        "BatchNormalization", [X, *[abs(draw(3)) for _ in range(4)]], opset=15, outputs=3, training_mode=1
    )
    wanted = reference_outputs(load_onnx(model).build(), feeds)
    x, scale, bias, mean, variance = (feeds[name].astype(np.float64) for name in feeds)
    normal = x, (0, 2, 3), scale[:, None, None], bias[:, None, None]
    sizes = [magnitude(*normal), abs(mean) + np.abs(x).mean((0, 2, 3)), variance + x.var((0, 2, 3))]
    for mine, theirs, size in zip(clgraph.compile(model, device).run(feeds).values(), wanted, sizes, strict=True):
        assert_rounded(mine, theirs, 2 * (2 * 40 + 8), size)
    model, feeds = one_node("Add", [X, MIDDLE], opset=6, broadcast=1, axis=1)
    (y,) = clgraph.compile(model, device).run(feeds).values()
    np.testing.assert_array_equal(y, X + MIDDLE[:, :, None])


def test_what_version_6_did_not_define_is_refused():
    with pytest.raises(ClgraphError, match="has an attribute 'broadcast'"):
        results("Add", [X, ROW], opset=7, broadcast=1)
