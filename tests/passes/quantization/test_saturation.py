"""Estimates of products of bytes whose pairs do not fit 16 bits."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.quantized_conv_transpose import QuantizedConvTranspose
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.passes.quantization.saturation import saturating_share, with_saturation
from clgraph.selector.query import DeviceInfo

CONVOLUTION = QuantizedConvolution((1, 1), (1, 1), ((0, 0), (0, 0)))


def weights(*places):
    """Return weights of 70 outputs, 10 channels and a window of two, of sums up to 128 but in *places*."""
    w = np.full((70, 10, 1, 2), 64, np.int8)
    w[1::3] = -64
    for place, value in places:
        w[place] = value
    return w


@pytest.mark.parametrize("value", [65, -65])
def test_words_with_a_pair_of_neighbours_beyond_sixteen_bits_are_counted(value):
    # Three blocks of outputs, three words of channels, two places of the window.
    same = 0 if value > 0 else 1
    assert saturating_share(weights(), 0, 1) == 0
    one = weights(((same, 5, 0, 1), value))
    assert saturating_share(one, 0, 1) == pytest.approx(1 / 18)
    # Others of its word, and of its outputs.
    more = weights(((same, 5, 0, 1), value), ((same, 7, 0, 1), value), ((same + 3, 4, 0, 1), value))
    assert saturating_share(more, 0, 1) == pytest.approx(1 / 18)
    more = weights(((same, 5, 0, 1), value), ((same, 5, 0, 0), value), ((66 + same, 9, 0, 0), value))
    assert saturating_share(more, 0, 1) == pytest.approx(3 / 18)
    # 6 and 7 are neighbours, 5 and 6 are not.
    apart = weights(((same, 4, 0, 0), 0), ((same, 7, 0, 0), 0), ((same, 5, 0, 0), 127), ((same, 6, 0, 0), 127))
    assert saturating_share(apart, 0, 1) == 0


def test_neighbours_are_along_the_inputs_of_every_product():
    w = np.full((32, 8), 1, np.int8)
    w[3, 4:6] = 100
    slow = DeviceInfo("a CPU", features=frozenset({"byte_pairs"}))
    # Four words of 32 outputs, two of which saturate: all are looked at and listed.
    looked = 4 * (6 + 12) * 32 / slow.costs.worker_flops / slow.whole.workers
    expected = pytest.approx(1e-3 * (1 + 0.45 / 2) + looked, rel=1e-12)
    assert with_saturation(slow, CONVOLUTION, w[..., None, None], 1e-3) == expected
    assert with_saturation(slow, QuantizedMatMul(True), w, 1e-3) == expected
    assert with_saturation(slow, QuantizedMatMul(False), w.T, 1e-3) == expected
    assert with_saturation(slow, QuantizedConvTranspose((1, 1)), w[None], 1e-3) == expected
    assert with_saturation(slow, CONVOLUTION, w[:, :1, None, None], 1) == 1, "a depthwise convolution has no neighbours"


def test_words_of_two_registers_are_looked_at_as_fast_as_those_of_one():
    w = np.full((32, 8, 1, 1), 1, np.int8)
    wide, narrow = (DeviceInfo("a CPU", features=frozenset({"byte_pairs"}), simd=simd) for simd in (16, 8))
    more = [with_saturation(device, CONVOLUTION, w, 0.0) * device.costs.worker_flops for device in (wide, narrow)]
    # In multiply-adds: a register of half the floats has half as many.
    assert more[0] == pytest.approx(2 * more[1], rel=1e-12)


def test_other_devices_hold_every_sum():
    w = np.full((32, 8, 1, 1), 127, np.int8)
    for features in ((), ("vnni",), ("byte_pairs", "vnni")):
        assert with_saturation(DeviceInfo("a device", features=frozenset(features)), CONVOLUTION, w, 1) == 1
    assert with_saturation(DeviceInfo("a CPU", features=frozenset({"byte_pairs"})), CONVOLUTION, w, 1) > 1.3
