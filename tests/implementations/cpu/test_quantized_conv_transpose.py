"""Transposed convolutions of bytes against the reference: every end of the sums but residuals."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.implementations.cpu.quantized_conv_transpose import QuantizedConvTransposeBytes
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.quantized_conv_transpose import QuantizedConvTranspose
from tests.implementations.cpu.test_quantized_convolution import check
from tests.support.features import needs_bytes


def draw(rng: np.random.Generator, channels: int, outputs: int, kernel: tuple[int, ...], spatial: tuple[int, ...]):
    """Return a primitive and its arrays, whose results are about 100 in size."""
    elements = int(np.prod(kernel))
    x = rng.integers(0, 256, (int(rng.integers(1, 3)), channels, *spatial)).astype(np.uint8)
    w = rng.integers(-128, 128, (elements, outputs, channels)).astype(np.int8)
    start = (-117 * w.astype(np.int64).sum(2)).astype(np.int32)
    scale = (rng.uniform(0.5, 1.5, outputs) * 40 / (5500 * np.sqrt(channels))).astype(np.float32)
    return QuantizedConvTranspose(kernel), [x, w, start, scale, rng.uniform(-5, 5, outputs).astype(np.float32)]


def test_the_reference_is_the_transposed_convolution_of_floats():
    rng = np.random.default_rng(0)
    for kernel, spatial in (((2, 3), (4, 5)), ((4,), (7,))):
        p, (x, w, start, scale, bias) = draw(rng, 5, 3, kernel, spatial)
        ones, none = (1,) * len(kernel), ((0, 0),) * len(kernel)
        whole = ConvTranspose(kernel, ones, none, (0,) * len(kernel))
        (want,) = whole.reference(x.astype(np.float64) - 117, _window(w, kernel).astype(np.float64))
        wide = (-1, *(1,) * len(kernel))
        want = want * scale.reshape(wide).astype(np.float64) + bias.reshape(wide)
        (got,) = p.reference(x, w, start, scale.astype(np.float64), bias.astype(np.float64))
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_of_no_image_there_is_nothing():
    p, (x, *rest) = draw(np.random.default_rng(0), 5, 3, (2, 3), (4, 5))
    (y,) = p.reference(x[:0], *rest)
    assert y.shape == (0, 3, 8, 15)


def _window(w, kernel):
    return np.moveaxis(w, 0, -1).swapaxes(0, 1).reshape(w.shape[2], w.shape[1], *kernel)


@pytest.mark.opencl
def test_sums_of_bytes_are_exact_and_end_as_they_are_told(engine):
    needs_bytes(engine)
    rng = np.random.default_rng(0)
    shapes = [(24, 24, (2, 2), (5, 33)), (33, 70, (2, 3), (9, 4)), (16, 5, (4,), (20,)), (64, 128, (1, 2), (3, 3))]
    ends = (
        "floats",
        "floats of channels",
        "bytes",
        "bounded bytes",
        "bytes rounded twice",
        "channels behind both roundings",
    )
    for i, end in enumerate((*ends, *ends[1:])):
        channels, outputs, kernel, spatial = shapes[i % len(shapes)]
        check(engine, QuantizedConvTransposeBytes, *draw(rng, channels, outputs, kernel, spatial), end, rng)
