"""Normalisations of sums and of embeddings, against ONNX Runtime or their definition."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import ShapeError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.drawing import normal
from tests.support.onnx_case import agree, one_node, reference_outputs
from tests.support.rounding import bounds, unfolded

F, INT = np.float32, np.int32
MICROSOFT = {"opset": 12, "domain": "com.microsoft"}


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


def computed(op_type, inputs, **more):
    """Return what the references compute, each result with how far from exact it may be."""
    model, feeds = one_node(op_type, inputs, **MICROSOFT, **more)
    topology = load_onnx(model)
    limits = bounds(unfolded(topology), feeds).values()
    return list(zip(reference_outputs(topology.build(), feeds), limits, strict=True))


def assert_within(result, exact):
    found, limit = result
    assert found.shape == exact.shape
    assert (np.abs(found - exact) <= limit).all()


def test_the_sum_and_its_moments_are_results_too(rng):
    x, skip, scale, shift, bias = normal(rng, 2, 3, 8), normal(rng, 2, 3, 8), *(normal(rng, 8) for _ in range(3))
    exact = x.astype(np.float64) + skip + bias
    means, deviations = exact.mean(-1, keepdims=True), np.sqrt(exact.var(-1, keepdims=True) + 1e-12)
    y, mean, inverse, total = computed("SkipLayerNormalization", [x, skip, scale, shift, bias], outputs=4)
    np.testing.assert_array_equal(total[0], x + skip + bias)
    for found, wanted in ((mean, means), (inverse, 1 / deviations), (y, (exact - means) / deviations * scale + shift)):
        assert_within(found, wanted)
    roots = np.sqrt(np.square(exact).mean(-1, keepdims=True) + 1e-12)
    y, mean, inverse, total = computed("SkipSimplifiedLayerNormalization", [x, skip, scale, bias], outputs=4)
    assert not mean[0].any()
    assert_within(inverse, 1 / roots)
    assert_within(y, exact / roots * scale)


def test_a_skip_of_other_sizes_is_refused(rng):
    model, _ = one_node(
        "SkipLayerNormalization", [normal(rng, 4, 3, 8), normal(rng, 2, 3, 8), normal(rng, 8)], **MICROSOFT
    )
    with pytest.raises(ShapeError, match=r"a skip \[2, 3, 8\] cannot be added to \[4, 3, 8\]"):
        load_onnx(model).build()


def test_groups_of_channels_are_normalised(rng):
    x, skip, parameters = normal(rng, 2, 3, 4, 6), normal(rng, 2, 6), [normal(rng, 6) for _ in range(3)]

    def want(total):
        groups = total.reshape(2, 12, 2, 3)
        centred = groups - groups.mean((1, 3), keepdims=True)
        y = (centred / np.sqrt(groups.var((1, 3), keepdims=True) + 1e-5)).reshape(total.shape)
        return y * parameters[0] + parameters[1]

    (y,) = computed("GroupNorm", [x, *parameters[:2]], groups=2, activation=0)
    assert_within(y, want(x.astype(np.float64)))
    total = x + skip[:, None, None] + parameters[2]
    exact = want(x.astype(np.float64) + skip[:, None, None] + parameters[2])
    both = {"groups": 2, "outputs": 2}
    for wide in (skip, skip[:, None, None], np.broadcast_to(skip[:, None, None], x.shape).copy()):
        y, found = computed("SkipGroupNorm", [x, *parameters[:2], wide, parameters[2]], **both, activation=1)
        np.testing.assert_array_equal(found[0], total)
        assert_within(y, exact / (1 + np.exp(-exact)))
    first = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    inputs = [first, *parameters[:2], skip, parameters[2]]
    y, found = computed("SkipGroupNorm", inputs, **both, activation=0, channels_last=0)
    np.testing.assert_array_equal(found[0], total.transpose(0, 3, 1, 2))
    assert_within(y, exact.transpose(0, 3, 1, 2))


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
