"""Transformed weights: the matrix, what packing writes on the device, and the way back."""

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.implementations.cpu.winograd_weights import PackWinograd
from clgraph.ops.winograd_weights import WinogradWeights, original_weights, weight_matrix
from tests.support.run_tiles import check_tiles


def test_the_transform_of_a_filter_is_its_polynomial_at_the_points():
    """U of g is its values at the points, over the products of differences; at infinity the last coefficient."""
    g = np.array([2.0, -3.0, 5.0])
    points = [0.0, 0.75, -0.75, 1.5, -1.5]
    values = [np.polyval(g[::-1], p) / np.prod([p - q for q in points if q != p]) for p in points]
    np.testing.assert_allclose(weight_matrix() @ g, [*values, 5.0], rtol=1e-15)


@pytest.mark.opencl
@pytest.mark.parametrize("vectors", [1, 2, 4])
@pytest.mark.parametrize(
    ("outputs", "channels", "stride"), [(16, 16, 1), (70, 37, 1), (1, 1, 2), (33, 200, 1), (70, 37, 2), (130, 3, 1)]
)
def test_the_device_rounds_once_and_fills_up_with_zeros(engine, rng, outputs, channels, vectors, stride):
    w = (rng.standard_normal((outputs, channels, 3, 3)) * 10.0 ** rng.integers(-3, 4)).astype(np.float32)
    primitive = WinogradWeights(vectors, stride)
    # Rounding once is half an ulp, 2^-24; sums of doubles that cancel add 2^-50 of the largest weight.
    size = np.full(primitive.infer([Layout.of(w)])[0].shape, 2.0**-26 * np.abs(w).max())
    check_tiles(engine, PackWinograd, primitive, [w], 1.0, size=size)


@pytest.mark.parametrize(("vectors", "stride", "positions"), [(1, 1, 36), (2, 1, 36), (2, 2, 25)])
def test_the_weights_can_be_computed_back(rng, vectors, stride, positions):
    w = rng.standard_normal((37, 21, 3, 3))
    (u,) = WinogradWeights(vectors, stride).reference(w)
    assert u.shape == (-(-37 // (16 * vectors)), positions, 32, 16 * vectors)
    np.testing.assert_allclose(original_weights(u, 37, 21, stride), w, atol=1e-13)


def test_other_windows_are_refused():
    with pytest.raises(ShapeError, match="5, 5"):
        WinogradWeights().infer([Layout.of(np.zeros((16, 16, 5, 5), np.float32))])
