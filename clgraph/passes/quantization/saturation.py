"""What products of bytes take longer where 16 bits do not hold pairs of them: on CPUs without VNNI."""

from __future__ import annotations

import numpy as np

from clgraph.graph.primitive import Array
from clgraph.ops.quantized_conv_transpose import QuantizedConvTranspose
from clgraph.passes.quantization.integer_products import Quantized, outputs_axis
from clgraph.selector.query import DeviceInfo

_OUTPUTS, _CHANNELS, _LANES = 32, 4, 16
"""Outputs and channels that are multiplied in 16 bits together, where one pair of neighbours wants it; outputs of a
word."""
_LONGER = 0.45
"""More time of a step that they take so, by five instructions in place of three. Zen 5: 0.4 of AVX-512, 0.5 of AVX2."""
_LOOKED_AT, _LISTED = 6.0, 12.0
"""Multiply-adds of a register of floats in whose time a word of 16 outputs is looked at, which tiles do anew in each
run, and is listed where one of them saturates: as long for one register as for two. Zen 5, one row and 16 rows by
1280 x 1000 weights; of AVX2, 16 rows by 384 x 1536."""
_BLOCKS = 8
"""Blocks of outputs that are looked at."""


def with_saturation(device: DeviceInfo, primitive: Quantized, weights: Array, seconds: float) -> float:
    """Return what *primitive* takes with *weights*, which its estimate of *seconds* does not know."""
    if "byte_pairs" not in device.features or "vnni" in device.features:
        return seconds
    outputs = outputs_axis(primitive)
    channels = 2 if isinstance(primitive, QuantizedConvTranspose) else 1 - outputs
    if weights.shape[channels] < 2:  # depthwise windows are multiplied as numbers of 16 bits
        return seconds
    share = saturating_share(weights, outputs, channels)
    lanes = min(_LANES, device.simd)
    each = (_LOOKED_AT + _LISTED * (share > 0)) * 2 * lanes / device.costs.worker_flops
    return seconds * (1.0 + _LONGER * share) + each * weights.size / (_LANES * _CHANNELS) / device.whole.workers


def saturating_share(weights: Array, outputs: int, channels: int) -> float:
    """Return the share of words of four channels, of 32 outputs, with a pair of weights of a sum beyond 128.

    Args:
        weights: Numbers of 8 bits.
        outputs, channels: The axes of each.
    """
    w = np.moveaxis(weights, (outputs, channels), (0, 1))
    w = w.reshape(*w.shape[:2], -1)
    if w.shape[1] < 2 or not w.size:
        return 0.0
    starts = range(0, len(w), _OUTPUTS)
    shares = []
    for first in starts[:: -(-len(starts) // _BLOCKS)]:
        block = w[first : first + _OUTPUTS].astype(np.int16)
        block = np.pad(block, ((0, 0), (0, -block.shape[1] % _CHANNELS), (0, 0)))
        beyond = np.abs(block[:, ::2] + block[:, 1::2]) > 128
        words = beyond.reshape(len(block), -1, _CHANNELS // 2, block.shape[2])
        shares.append(words.any((0, 2)).mean())
    return float(np.mean(shares))
