"""Convolution tiles of bytes that note the extremes of sums, and those that round by steps computed from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.quantized_convolution import QuantizedConvolutionBytes
from clgraph.implementations.cpu.quantized_convolution_depthwise import QuantizedDepthwise
from clgraph.implementations.cpu.sum_extremes import SumExtremesBytes, SumExtremesDepthwise
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.sum_extremes import SumExtremes
from tests.support.features import needs_bytes
from tests.support.run_tiles import pose, run_tiles, with_weights

SHAPES = ((3, 20, 1, 3), (16, 70, 1, 1), (48, 96, 3, 3), (33, 33, 33, 3), (20, 20, 20, 5))
"""Channels, outputs, groups, kernel."""
FACTOR = np.float32(0.013)


def _draw(rng, channels, outputs, groups, kernel):
    """Return a convolution whose zero point is computed, and its inputs; sums are what is scaled."""
    pads = ((kernel // 2,) * 2,) * 2
    x = rng.integers(0, 256, (2, channels, 13, 18)).astype(np.uint8)
    w = rng.integers(-127, 128, (outputs, channels // groups, kernel, kernel)).astype(np.int8)
    w[0], w[-1] = 127, -127
    numbers = np.ones(outputs, np.float32), np.zeros(outputs, np.float32)
    arrays = [x, w, w.sum((1, 2, 3), dtype=np.int32), *numbers, np.array(rng.integers(256), np.uint8)]
    return QuantizedConvolution((1, 1), (1, 1), pads, groups), arrays


@pytest.mark.opencl
@pytest.mark.parametrize("shape", SHAPES)
def test_extremes_of_sums_are_those_of_each_channel(engine, shape):
    needs_bytes(engine)
    p, arrays = _draw(np.random.default_rng(0), *shape)
    noted = SumExtremes(p.strides, p.dilations, p.pads, p.groups, p.zero)
    (sums,) = p.reference(*arrays)
    (want,) = noted.reference(*arrays)
    np.testing.assert_array_equal(want[:, :, 0, 0], [sums.max((0, 2, 3)), sums.min((0, 2, 3))])
    tiles = SumExtremesDepthwise if p.groups == shape[0] else SumExtremesBytes
    q = pose(engine.info, tiles, noted, [Layout.of(a) for a in arrays], arity=6, constant=(1, 2, 3, 4))
    np.testing.assert_array_equal(run_tiles(engine, tiles, q, arrays), want)


@pytest.mark.opencl
@pytest.mark.parametrize("step", [0.37, 0.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_rounded_by_computed_steps_as_floats_are(engine, shape, step):
    """The last bits of 0.5 are zeros: that divides by itself (quotient.clh), most by the parts of their inverse."""
    needs_bytes(engine)
    rng = np.random.default_rng(1)
    p, arrays = _draw(rng, *shape)
    arrays += [np.array(FACTOR), rng.normal(size=(shape[1], 1, 1)).astype(np.float32)]
    arrays += [np.array(step, np.float32), np.array(97, np.uint8)]
    fused = [Fused(Eltwise("mul"), (6,)), Fused(Eltwise("add"), (7,)), Fused(Activation("clip", -20.0, 31.0))]
    fused.append(Fused(Quantize(0), (8, 9)))
    tiles = QuantizedDepthwise if p.groups == shape[0] else QuantizedConvolutionBytes
    how = {"arity": 6, "packed": False, "fused": fused, "constant": (1, 2, 3, 4, 7)}
    q = pose(engine.info, tiles, p, [Layout.of(a) for a in arrays], **how)
    q = with_weights(tiles, q.with_layouts(q.inputs, (replace(q.outputs[0], dtype=DType.U8),)))
    (value,) = p.reference(*arrays[:6])
    for f in fused:
        value = f.apply(value, arrays)
    assert len(np.unique(value)) > 50
    np.testing.assert_array_equal(run_tiles(engine, tiles, q, arrays), value)
