"""Floating types beside float and half: every operator with a general kernel computes with doubles and bfloat16.

Bounds are those of the tests of each operator, in units of the type that is computed in; storing as bfloat16 adds half
an ulp of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops.activation import FUNCTIONS, Activation
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.attention import Attention
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.eltwise import COMPARISONS, Eltwise
from clgraph.ops.grid_sample import GridSample
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.lrn import Lrn
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import FUNCTIONS as REDUCTIONS
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.ops.roi_align import RoiAlign
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.softmax import Softmax
from clgraph.ops.top_k import TopK
from clgraph.ops.transpose import Transpose
from clgraph.ops.trigonometry import Trigonometric
from clgraph.selector.choose import candidates
from clgraph.selector.query import Query
from tests.ops.test_attention import natural_size
from tests.support.check_op import check_op, magnitude

TYPES = pytest.mark.parametrize("dtype", [DType.BF16, DType.F64], ids=str)
POSITIVE = {0: lambda rng, shape: rng.uniform(0.25, 4, shape)}
WINDOW = ((1, 1), (1, 1), ((1, 1), (1, 1)))


@pytest.mark.opencl
@TYPES
def test_functions_of_one_number(dtype, engine):
    scale = lambda x: 1 + np.abs(x)  # noqa: E731
    for function in sorted(
        FUNCTIONS.keys() - {"not", "gated_steps", "whole_steps", "fake_quantize", "fake_quantize_wide"}
    ):
        draw = POSITIVE if function in ("log", "sqrt", "reciprocal") else {}
        # Of at most three functions of 16 units each, at arguments that are rounded: their slopes are at most 3.
        check_op(
            *(engine, Activation(function, 0.3, 0.7), (3, 37)),
            dtype=dtype,
            ulps=3 * 16,
            scale=scale,
            draw=draw,
            families=["normal"],
        )
    for function in ("tan", "asinh", "atan"):
        check_op(engine, Trigonometric(function), (3, 17), ulps=10, dtype=dtype, families=["normal"])


@pytest.mark.opencl
@TYPES
def test_functions_of_two_numbers_and_fused_ones(dtype, engine):
    for function in ("add", "sub", "mul", "div", "min", "max", "prelu"):
        fused = [(Activation("linear", 0.1, 0.3), (), 0), (Eltwise("mul"), ((5, 1),), 0)]
        scale = lambda a, b, c, f=function: (  # noqa: E731
            (np.abs(Eltwise(f).reference(a, b)[0]) + np.abs(a) + 1) * np.abs(c)
        )
        draw = {1: POSITIVE[0]}
        check_op(engine, Eltwise(function), (2, 5, 7), (5, 1), dtype=dtype, ulps=9, fused=fused, scale=scale, draw=draw)
    # The exponent times the logarithm, and 16 ulps.
    check_op(engine, Eltwise("pow"), (5, 7), (7,), dtype=dtype, ulps=32, draw=POSITIVE, families=["normal"])
    for function in ("mod", "fmod"):
        check_op(engine, Eltwise(function), (5, 7), (7,), dtype=dtype, ulps=1, draw={1: POSITIVE[0]})
    for function in COMPARISONS:
        check_op(engine, Eltwise(function), (5, 7), (7,), dtype=dtype)


@pytest.mark.opencl
@TYPES
def test_reductions_and_searches(dtype, engine):
    for function in REDUCTIONS:
        primitive = Reduce(function, (1,))
        size = lambda x: 1 + np.abs(x).sum(1, keepdims=True) + (x * x).sum(1, keepdims=True)  # noqa: E731
        draw = POSITIVE if function in ("log_sum", "prod", "mean") else {}
        exact = function in ("max", "min")
        scale = None if exact or function == "prod" else size
        check_op(
            *(engine, primitive, (3, 19, 2)),
            dtype=dtype,
            ulps=0 if exact else 19 + 12,
            scale=scale,
            draw=draw,
            families=["normal"],
        )
    check_op(engine, CumulativeSum(1), (2, 9, 4), ulps=9, scale=magnitude(CumulativeSum(1)), dtype=dtype)
    check_op(engine, ArgExtremum(1), (3, 19, 2), dtype=dtype)
    check_op(engine, TopK(1, True, 3), (3, 19, 2), dtype=dtype)
    axes, shape = (2,), (2, 3, 19)
    spread = lambda x: Softmax(axes).reference(x)[0] * (1 + np.abs(x - x.max(axes, keepdims=True)))  # noqa: E731
    check_op(engine, Softmax(axes), shape, ulps=19 + 18, scale=spread, dtype=dtype)


@pytest.mark.opencl
@TYPES
def test_products(dtype, engine):
    product = MatMul(transpose_b=True)
    check_op(engine, product, (3, 5, 19), (7, 19), (7,), ulps=20, scale=magnitude(product), dtype=dtype)
    convolution, turned = Convolution(*WINDOW), ConvTranspose(*WINDOW)
    shapes = ((2, 3, 7, 6), (4, 3, 3, 3), (4,))
    check_op(engine, convolution, *shapes, ulps=28, scale=magnitude(convolution), dtype=dtype, constant=(1, 2))
    shapes = ((2, 3, 7, 6), (3, 4, 3, 3), (4,))
    bound = turned.bind([Layout(dtype, s) for s in shapes], [None] * 3).primitive
    check_op(engine, turned, *shapes, ulps=28, scale=magnitude(bound), dtype=dtype, constant=(1, 2))
    attention = Attention(0.3, True)
    size = lambda *arrays: natural_size(attention, *arrays)  # noqa: E731
    check_op(engine, attention, (2, 5, 4), (2, 7, 4), (2, 7, 19), (5, 7), ulps=1, scale=size, dtype=dtype)


@pytest.mark.opencl
@TYPES
def test_normalisations(dtype, engine):
    layer = LayerNormalization(2, 2.0**-10)

    def scale(x, factor, bias):
        deviation = np.sqrt(x.var((2,), keepdims=True) + layer.epsilon)
        y = np.abs(x - x.mean((2,), keepdims=True)) / deviation
        return (np.abs(x).mean((2,), keepdims=True) / deviation * (1 + 2 * y) + y) * np.abs(factor) + np.abs(bias)

    check_op(
        engine, layer, (2, 3, 19), (19,), (19,), ulps=19 + 25, scale=scale, dtype=dtype, families=["normal", "wide"]
    )
    batch = BatchNormalization(2.0**-10)

    def size(x, f, b, m, v):
        f, b, m, v = (each[:, None] for each in (f, b, m, v))
        return np.abs(x - m) * np.abs(f) / np.sqrt(v) + np.abs(b)

    draw = {4: POSITIVE[0]}
    check_op(engine, batch, (2, 5, 7), *[(5,)] * 4, ulps=14, scale=size, draw=draw, dtype=dtype)
    check_op(engine, Lrn(5, 2.0**-7, 0.75, 2.0), (2, 19, 3, 4), ulps=6 + 32 + 17 + 5, dtype=dtype)


@pytest.mark.opencl
@TYPES
def test_windows_and_places(dtype, engine):
    largest = lambda x, *_: np.abs(x).max()  # noqa: E731
    check_op(engine, Pooling("max", (2, 3)), (2, 3, 7, 8), dtype=dtype)
    average = Pooling("average", (2, 3))
    bound = average.bind([Layout(dtype, (2, 3, 7, 8))], [None]).primitive
    check_op(engine, average, (2, 3, 7, 8), ulps=6 + 5, scale=magnitude(bound), dtype=dtype)
    resize = Resize("linear", "half_pixel", shape=(1, 2, 10, 12), scales=(1.0, 1.0, 2.0, 2.0))
    check_op(engine, resize, (1, 2, 5, 6), ulps=8, scale=largest, dtype=dtype)
    places = {1: lambda rng, shape: rng.integers(-13, 14, shape) / 8}
    check_op(
        engine,
        GridSample("linear", "zeros", True),
        (1, 2, 5, 6),
        (1, 3, 4, 2),
        ulps=3000,
        scale=largest,
        draw=places,
        dtype=dtype,
    )
    draw = {1: lambda rng, s: np.array([[0, 0, 8, 8], [1, 2, 7, 5]]), 2: lambda rng, s: np.array([0, 1])}
    align = RoiAlign((3, 2), 2, 0.5)
    shapes = ((2, 3, 9, 8), (2, 4), (2,))
    check_op(engine, align, *shapes, dtype=[dtype, dtype, DType.I64], draw=draw, ulps=600, scale=largest)
    rows = {1: lambda rng, s: rng.integers(0, 5, s)}
    types = [dtype, DType.I64, dtype]
    added = lambda x, _, u: np.abs(x) + np.abs(u).sum()  # noqa: E731
    scatter, rounding = ScatterElements(0, "add"), 3 * (2**16 if dtype is DType.BF16 else 1)  # stored at each update
    check_op(engine, scatter, (5, 4), (3, 4), (3, 4), dtype=types, draw=rows, ulps=rounding, scale=added)


@pytest.mark.opencl
def test_devices_without_doubles_say_so_and_move_them(engine):
    device = replace(engine.info, features=engine.info.features - {"fp64"})
    x = Layout(DType.F64, (3, 4))
    asked = Query(Activation("exp"), (x,), (x,), device, 1)
    assert "needs fp64 to compute with doubles" in {c.refusal(asked) for c in candidates(asked)}
    asked = Query(Transpose((1, 0)), (x,), (Layout(DType.F64, (4, 3)),), device, 1)
    assert None in {c.refusal(asked) for c in candidates(asked)}
