"""Batch normalisation."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.batch_normalization import BatchNormalization
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3), (1, 3, 7)])
def test_import_and_reference_agree_with_onnxruntime(shape, opset, rng):
    statistics = [rng.standard_normal(3).astype(np.float32) for _ in range(3)] + [
        rng.random(3).astype(np.float32) + np.float32(0.1)
    ]
    agree("BatchNormalization", [rng.standard_normal(shape).astype(np.float32), *statistics], opset=opset, epsilon=1e-3)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0), (0, 3)])
def test_statistics_of_nothing_are_no_numbers(shape):
    parameters = [np.ones(3, np.float32)] * 4
    agree("BatchNormalization", [np.zeros(shape, np.float32), *parameters], opset=15, outputs=3, training_mode=1)


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(2, 19, 4, 5), (3, 5), (1, 3, 7)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_implementation_is_within_its_bound(dtype, shape, engine):
    epsilon = 2.0**-10
    channels = (shape[1],)

    def scale(x, factor, bias, mean, variance):
        wide = (-1, *(1 for _ in shape[2:]))
        factor, bias, mean, variance = (v.reshape(wide) for v in (factor, bias, mean, variance))
        return np.abs(x - mean) * np.abs(factor) / np.sqrt(variance + epsilon) + np.abs(bias)

    # Sum under the root 1/2, root 3 ulps (6 units), division 2.5 (5), difference 1, product and sum 1.
    draw = {4: lambda rng, shape: rng.uniform(0.25, 4, shape)}
    fused = [(Activation("relu"), [], 0)]
    arguments = {"ulps": 14, "scale": scale, "draw": draw, "constant": (1, 2, 3, 4), "dtype": dtype, "fused": fused}
    check_op(engine, BatchNormalization(epsilon), shape, *[channels] * 4, **arguments)
