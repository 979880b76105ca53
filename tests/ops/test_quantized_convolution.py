"""Convolutions of 8-bit integers: every implementation but NVIDIA's, on PoCL."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from tests.support.check_op import check_op
from tests.support.combinations import each_value, in_both_types

TYPES = (DType.I8, DType.I8, DType.I32, DType.F32, DType.F32)
BYTES = lambda rng, shape: rng.integers(-128, 128, shape)  # noqa: E731
ENDS = lambda rng, shape: rng.choice([-128, 127], shape)  # noqa: E731
WHOLE = lambda rng, shape: rng.integers(-5000, 5000, shape)  # noqa: E731
SCALES = lambda rng, shape: rng.uniform(1e-4, 1e-2, shape)  # noqa: E731
POWERS = lambda rng, shape: 2.0 ** rng.integers(-9, -5, shape)  # noqa: E731
BIAS = lambda rng, shape: rng.integers(-64, 64, shape) / 8  # noqa: E731
DRAWN = {0: BYTES, 1: BYTES, 2: WHOLE, 3: SCALES, 4: BIAS}


def conv(strides, dilations, pads, groups=1, zero=0, dtype=DType.F32, shift=0):
    return QuantizedConvolution(strides, dilations, pads, groups, zero, dtype, shift)


CASES = {
    "pointwise": ((2, 24, 5, 7), (36, 24, 1, 1), conv((1, 1), (1, 1), ((0, 0), (0, 0)))),
    "three_by_three": ((1, 16, 9, 8), (72, 16, 3, 3), conv((1, 1), (1, 1), ((1, 1), (1, 1)), zero=-128)),
    "strided": ((2, 8, 11, 9), (20, 8, 3, 3), conv((2, 2), (1, 1), ((1, 1), (1, 1)), zero=7)),
    "uneven": ((2, 8, 9, 8), (12, 8, 3, 2), conv((2, 1), (1, 2), ((1, 0), (1, 2)), zero=127)),
    "groups": ((1, 40, 6, 6), (16, 20, 3, 3), conv((1, 1), (1, 1), ((1, 1), (1, 1)), 2, zero=-3)),
    "shifted": ((1, 8, 9, 8), (16, 8, 3, 3), conv((1, 1), (1, 1), ((1, 1), (1, 1)), zero=-128, shift=-90)),
    "one_axis": ((2, 8, 30), (12, 8, 4), conv((2,), (3,), ((1, 4),), zero=11)),
}


def scale_of(x, w, start, scale, bias, primitive):
    """Return |sum * scale| + |result| of each element, what the kernels' header counts its error in."""
    wide = (-1, *(1,) * (x.ndim - 2))
    y = primitive.reference(x, w, start, scale, bias)[0]
    return np.abs(y - bias.reshape(wide)) + np.abs(y)


def check(engine, case, draw=DRAWN, **more):
    x, w, primitive = CASES[case] if isinstance(case, str) else case
    outputs = w[:1]
    scale = lambda *arrays: scale_of(*arrays[:5], primitive)  # noqa: E731
    how = {"ulps": 1.0, "scale": scale, "families": ["normal"], "dtype": TYPES, "constant": (1, 2, 3, 4), **more}
    return check_op(engine, primitive, x, w, outputs, outputs, outputs, draw=draw, **how)


@pytest.mark.opencl
@in_both_types("case", CASES)
def test_sums_are_exact_and_scaled_within_the_bound(case, dtype, gpu_engine):
    x, w, primitive = CASES[case]
    primitive = conv(primitive.strides, primitive.dilations, primitive.pads, primitive.groups, primitive.zero, dtype)
    found = check(gpu_engine, (x, w, primitive))
    assert found.keys() == {"quantized_convolution.ref", "quantized_convolution.gpu_tiled"}


@pytest.mark.opencl
def test_the_largest_bytes_do_not_overflow(gpu_engine):
    check(gpu_engine, ((1, 64, 6, 5), (8, 64, 3, 3), CASES["three_by_three"][2]), {**DRAWN, 0: ENDS, 1: ENDS})


RELU = Activation("relu")
EXACT = {**DRAWN, 3: POWERS}
"""Scales by which every step is exact, so that rounding to 8 bits has one right result, ties included."""


def fused(case, rounding):
    """Return a residual of bytes, an activation and rounding behind a convolution."""
    x, w, primitive = CASES[case] if isinstance(case, str) else case
    y = primitive.infer([Layout(t, s) for t, s in zip(TYPES, (x, w, *[w[:1]] * 3), strict=True)])[0].shape
    return [(DequantizeAdd(2.0**-4, -7), [y], 0), (RELU, [], 0), (rounding, [], 0)]


@pytest.mark.opencl
@each_value(
    case=["three_by_three", "strided", "one_axis"],
    rounding=[StaticQuantize(0.25, -128), StaticQuantize(0.125, 100, DType.U8)],
)
def test_a_residual_an_activation_and_rounding_are_applied_exactly(case, rounding, gpu_engine):
    check(gpu_engine, case, EXACT, fused=fused(case, rounding), ulps=0)


@pytest.mark.opencl
def test_results_beyond_8_bits_saturate(gpu_engine):
    # Sums of 144 products of 127 or 128 a side are 2^21, a step 2^-9: nearly all results lie beyond.
    steps = [(StaticQuantize(2.0**-9, 3), [], 0)]
    check(gpu_engine, "three_by_three", {**EXACT, 0: ENDS, 1: ENDS}, fused=steps, ulps=0)


@pytest.mark.opencl
def test_operands_in_floats_are_read_too(gpu_engine):
    _, w, primitive = CASES["pointwise"]
    steps = [(Eltwise("mul"), [(w[0], 1, 1)], 0), (RELU, [], 0)]
    # The multiplication takes the errors along and adds its own.
    scale = lambda *arrays: scale_of(*arrays[:5], primitive) * np.abs(arrays[5])  # noqa: E731
    check(gpu_engine, "pointwise", fused=steps, dtype=(*TYPES, DType.F32), scale=scale, ulps=2)


@pytest.mark.opencl
def test_products_of_four_at_once_give_the_same(gpu_engine, monkeypatch):
    # No device here has cl_khr_integer_dot_product: what it defines is spelled out in front of the kernel.
    spelled = (
        "static int dot_4x8packed_ss_int(uint a, uint b) {"
        " const int4 p = convert_int4(as_char4(a)) * convert_int4(as_char4(b)); return p.x + p.y + p.z + p.w; }\n"
    )
    device = replace(gpu_engine.info, features=gpu_engine.info.features | {"int_dot"})
    kernel = gpu_engine.kernel
    seen = []

    def with_dots(text, *args, **how):
        seen.append("define INT_DOT 1" in text)
        plain = text.replace("#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable", "")
        return kernel(spelled + plain, *args, **how)

    monkeypatch.setattr(gpu_engine, "info", device)
    monkeypatch.setattr(gpu_engine, "kernel", with_dots)
    check(gpu_engine, "three_by_three", only=["quantized_convolution.gpu_tiled"])
    assert any(seen)


def test_the_reference_is_the_convolution_of_what_the_integers_stand_for(rng):
    x, w = rng.integers(-128, 128, (2, 6, 5, 4), np.int8), rng.integers(-128, 128, (4, 3, 3, 2), np.int8)
    primitive = conv((1, 2), (1, 1), ((1, 1), (0, 1)), 2, zero=-30)
    start = (30 * w.astype(np.int64).sum((1, 2, 3))).astype(np.int32)
    scale, bias = rng.uniform(0.5, 2, 4), rng.standard_normal(4)
    # x - zero, padded with zeros, as floats.
    (want,) = primitive.window.reference(x.astype(np.float64) + 30, w * scale.reshape(-1, 1, 1, 1), bias)
    (got,) = primitive.reference(x, w, start, scale, bias)
    # Doubles: 19 products, 2^-53 of each.
    np.testing.assert_allclose(got, want, rtol=0, atol=40 * 2.0**-53 * 19 * 256 * 128 * 2)


def test_what_does_not_fit_is_refused():
    layouts = [Layout(t, s) for t, s in zip(TYPES, ((1, 4, 3, 3), (8, 4, 1, 1), (8,), (8,), (8,)), strict=True)]
    primitive = CASES["pointwise"][2]
    primitive.infer(layouts)
    with pytest.raises(ShapeError, match="start, scale and bias want shape"):
        primitive.infer([*layouts[:4], Layout(DType.F32, (4,))])
    with pytest.raises(ShapeError, match="requires i8 or u8, i8"):
        primitive.infer([Layout(DType.F32, (1, 4, 3, 3)), *layouts[1:]])
