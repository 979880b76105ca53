"""Layer and instance normalisation."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.layer_normalization import LayerNormalization, Moments
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("axis", [-1, 1, 2])
def test_layer_normalization_agrees_with_onnxruntime(axis, rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    scale, bias = (rng.standard_normal(x.shape[axis:]).astype(np.float32) for _ in range(2))
    agree("LayerNormalization", [x, scale, bias], opset=17, axis=axis, epsilon=1e-3)
    agree("LayerNormalization", [x, scale], opset=17, axis=axis)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mean_and_deviation_are_floats_whatever_the_tensor_is(dtype, rng):
    x = rng.standard_normal((2, 3, 4)).astype(dtype)
    # Of float64 ONNX Runtime computes in float64, too: float32's rounding is all that tells them apart.
    agree("LayerNormalization", [x, x[0, 0]], opset=17, outputs=3)


def test_mean_and_deviation_of_nothing_are_no_numbers():
    found = Moments().reference(np.zeros((2, 3, 0), np.float32))
    assert all(s.shape == (2, 3, 1) and np.isnan(s).all() for s in found)  # ONNX Runtime refuses it


@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_normalization_agrees_with_onnxruntime(axis, rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32) + 2
    scale = rng.standard_normal(x.shape[axis:]).astype(np.float32)
    agree("RMSNormalization", [x, scale], opset=23, axis=axis, epsilon=1e-3)


@pytest.mark.parametrize("opset", [7, 22])
def test_instance_normalization_agrees_with_onnxruntime(opset, rng):
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    scale, bias = (rng.standard_normal(3).astype(np.float32) for _ in range(2))
    agree("InstanceNormalization", [x, scale, bias], opset=opset, epsilon=1e-3)


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("primitive", "shapes"),
    [
        (LayerNormalization(2, 2.0**-10), [(2, 3, 65), (65,), (65,)]),
        (LayerNormalization(1, 2.0**-10), [(2, 3, 5), (3, 5)]),
        # Of halves 30 rows are converted at a time.
        (LayerNormalization(2, 2.0**-10), [(2, 61, 17), (17,), (17,)]),
        (LayerNormalization(2, 2.0**-10, channels=True), [(2, 19, 4, 5), (19,), (19,)]),
        (LayerNormalization(2, 2.0**-10, centred=False), [(2, 3, 65), (65,)]),
        (LayerNormalization(2, 2.0**-10), [(2, 3, 4, 21), (3, 4, 1), (3, 1, 1)]),
        (LayerNormalization(1, 2.0**-10), [(2, 4, 33), (2, 1, 1), (33,)]),
    ],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.F64])
def test_every_implementation_is_within_its_bound(dtype, primitive, shapes, engine):
    x, times = shapes[0], (*shapes[0][:-1], 1)
    axes = tuple(range(primitive.axis, len(x)))
    k = int(np.prod([x[a] for a in axes]))

    def scale(x, factor, *others):
        bias, factors = others[0] if len(shapes) > 2 else None, others[len(shapes) - 2 :]
        factor = np.abs(factor.reshape(primitive.wide(factor.shape, x.ndim)))
        shift = 0 if bias is None else np.abs(bias.reshape(primitive.wide(bias.shape, x.ndim)))
        mean = x.mean(axes, keepdims=True) if primitive.centred else 0
        deviation = np.sqrt(np.square(x - mean).mean(axes, keepdims=True) + primitive.epsilon)
        y, lost = np.abs(x - mean) / deviation, np.abs(x).mean(axes, keepdims=True) / deviation
        size = (lost * (1 + 2 * y) * primitive.centred + y) * factor + shift
        return size * np.abs(factors[0]) if factors else size

    # The mean is off by k + 5 units of mean |x|: a difference over the deviation, and twice that relative to it. The
    # sum of squares rounds k times, half of it under the root; root 6 units, two divisions 5 each, four roundings.
    # The operand rounds once more.
    check_op(engine, primitive, *shapes, ulps=k + 5 + 20, scale=scale, dtype=dtype)
    fused = [(Eltwise("mul"), [times], 0)]
    check_op(engine, primitive, *shapes, fused=fused, ulps=k + 26, scale=scale, dtype=dtype, families=("normal",))
