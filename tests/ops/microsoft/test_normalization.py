"""Normalisations of sums and of embeddings, against ONNX Runtime or their definition."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import ShapeError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node, reference_outputs

F, INT = np.float32, np.int32
MICROSOFT = {"opset": 12, "domain": "com.microsoft"}


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(F)


@pytest.mark.parametrize("opset", [9, 12, 16])
def test_layer_normalization_is_read_under_operator_sets_that_do_not_have_it(opset, rng):
    x, scale, bias = normal(rng, 2, 3, 4, 5), normal(rng, 4, 5), normal(rng, 4, 5)
    for inputs, axis in (([x, scale, bias], 2), ([x, scale], -2), ([x, scale[0]], -1)):
        agree("LayerNormalization", inputs, opset=opset, axis=axis, epsilon=1e-3)
    agree("LayerNormalization", [x, scale[0], bias[0]], opset=opset, outputs=3)
    agree("SimplifiedLayerNormalization", [x, scale[0]], opset=opset, epsilon=1e-3, axis=-1)
    agree("SimplifiedLayerNormalization", [x, scale], opset=opset, axis=2)


def test_halves_are_normalised_by_floats(rng):
    x, scale, bias = normal(rng, 2, 3, 8).astype(np.float16), normal(rng, 8), normal(rng, 8)
    # ONNX Runtime rounds to halves in between: 2^-11 of the largest value.
    bound = {"rtol": 0, "atol": 2.0**-11 * 8}
    agree("LayerNormalization", [x, scale, bias], opset=12, **bound)
    agree("SimplifiedLayerNormalization", [x, scale], opset=12, **bound)


def test_sums_are_normalised_as_onnxruntime_does(rng):
    x, scale, shift, bias = normal(rng, 2, 3, 8), *(normal(rng, 8) for _ in range(3))
    for skip in (normal(rng, 2, 3, 8), normal(rng, 1, 3, 8), normal(rng, 3, 8)):
        agree("SkipLayerNormalization", [x, skip, scale, shift, bias], **MICROSOFT)
        agree("SkipSimplifiedLayerNormalization", [x, skip, scale, bias], **MICROSOFT, epsilon=1e-3)
    agree("SkipLayerNormalization", [x, x[:1], scale], **MICROSOFT, epsilon=1e-3)
    agree("SkipLayerNormalization", [x[0], x[1], scale, None, bias], **MICROSOFT)


def every_output(op_type, inputs):
    model, feeds = one_node(op_type, inputs, **MICROSOFT, outputs=4)
    return reference_outputs(load_onnx(model).build(), feeds)


def test_the_sum_and_its_moments_are_results_too(rng):
    x, skip, scale, shift, bias = normal(rng, 2, 3, 8), normal(rng, 2, 3, 8), *(normal(rng, 8) for _ in range(3))
    y, mean, inverse, total = every_output("SkipLayerNormalization", [x, skip, scale, shift, bias])
    np.testing.assert_array_equal(total, x + skip + bias)
    exact = total.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(exact.var(-1, keepdims=True) + 1e-12), rtol=1e-5)
    np.testing.assert_allclose(y, (total - mean) * inverse * scale + shift, rtol=1e-5, atol=1e-5)
    y, mean, inverse, total = every_output("SkipSimplifiedLayerNormalization", [x, skip, scale, bias])
    assert not mean.any()
    np.testing.assert_allclose(inverse, 1 / np.sqrt(np.square(total).mean(-1, keepdims=True)), rtol=1e-5)
    np.testing.assert_allclose(y, total * inverse * scale, rtol=1e-5, atol=1e-6)


def test_a_skip_of_other_sizes_is_refused(rng):
    model, _ = one_node(
        "SkipLayerNormalization", [normal(rng, 4, 3, 8), normal(rng, 2, 3, 8), normal(rng, 8)], **MICROSOFT
    )
    with pytest.raises(ShapeError, match=r"a skip \[2, 3, 8\] cannot be added to \[4, 3, 8\]"):
        load_onnx(model).build()


def test_groups_of_channels_are_normalised(rng):
    x, skip, parameters = normal(rng, 2, 3, 4, 6), normal(rng, 2, 6), [normal(rng, 6) for _ in range(3)]

    def run(op_type, inputs, **more):
        model, feeds = one_node(op_type, inputs, **MICROSOFT, groups=2, outputs=1 + ("Skip" in op_type), **more)
        return reference_outputs(load_onnx(model).build(), feeds)

    def want(total):
        groups = total.reshape(2, 12, 2, 3).astype(np.float64)
        centred = groups - groups.mean((1, 3), keepdims=True)
        y = (centred / np.sqrt(groups.var((1, 3), keepdims=True) + 1e-5)).reshape(total.shape)
        return y * parameters[0] + parameters[1]

    (y,) = run("GroupNorm", [x, *parameters[:2]], activation=0)
    np.testing.assert_allclose(y, want(x), rtol=1e-5, atol=1e-5)
    total = x + skip[:, None, None] + parameters[2]
    for wide in (skip, skip[:, None, None], np.broadcast_to(skip[:, None, None], x.shape).copy()):
        y, found = run("SkipGroupNorm", [x, *parameters[:2], wide, parameters[2]], activation=1)
        np.testing.assert_array_equal(found, total)
        np.testing.assert_allclose(y, want(total) / (1 + np.exp(-want(total))), rtol=1e-5, atol=1e-5)
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    y, found = run("SkipGroupNorm", [first, *parameters[:2], skip, parameters[2]], activation=0, channels_last=0)
    np.testing.assert_array_equal(found, total.transpose(0, 3, 1, 2))
    np.testing.assert_allclose(y, want(total).transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-5)


def test_embeddings_are_onnxruntimes(rng):
    words, segments = rng.integers(0, 20, (2, 5)).astype(INT), rng.integers(0, 2, (2, 5)).astype(INT)
    tables = [normal(rng, n, 8) for n in (20, 7, 2)]
    norm = [normal(rng, 8) for _ in range(2)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], INT)
    for segment, table in ((segments, tables[2]), (None, None)):
        inputs = [words, segment, *tables[:2], table, *norm]
        agree("EmbedLayerNormalization", inputs, **MICROSOFT, outputs=2)
        agree("EmbedLayerNormalization", [*inputs, mask], **MICROSOFT, outputs=3, mask_index_type=1)
        for places in (rng.integers(0, 7, (2, 5)).astype(INT), np.array([[2, 3, 4, 5, 6]], INT)):
            agree("EmbedLayerNormalization", [*inputs, mask, places], **MICROSOFT, outputs=3)


def test_embeddings_of_integers_are_onnxruntimes(rng):
    words, segments = rng.integers(0, 20, (2, 5)).astype(INT), rng.integers(0, 2, (2, 5)).astype(INT)
    quantised = [rng.integers(0, 256, shape).astype(np.uint8) for shape in ((20, 8), (7, 8), (2, 8), (8,), (8,))]
    scales, zeros = [F(s) for s in (0.01, 0.02, 0.03, 0.004, 0.005)], [np.uint8(z) for z in (120, 130, 128, 7, 100)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], INT)
    agree("QEmbedLayerNormalization", [words, segments, *quantised, mask, *scales, *zeros], **MICROSOFT, outputs=2)
