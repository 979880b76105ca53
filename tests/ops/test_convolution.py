"""Convolution: import, shapes and reference against ONNX Runtime, every implementation against the reference."""

from dataclasses import replace

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.passes.fusing.convolution_groups import spread_weights
from clgraph.selector.choose import choose
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op
from tests.support.onnx_case import agree

CASES = {
    "plain": ((2, 3, 9, 8), (4, 3, 3, 3), {}),
    "padded_unevenly": ((1, 3, 9, 8), (4, 3, 3, 2), {"pads": [1, 0, 2, 1]}),
    "strides_and_dilations": (
        (1, 3, 13, 12),
        (4, 3, 3, 3),
        {"strides": [2, 3], "dilations": [2, 1], "pads": [2, 1, 2, 1]},
    ),
    "groups": ((1, 6, 7, 7), (8, 3, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": ((2, 5, 7, 7), (5, 1, 3, 3), {"group": 5, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "depthwise_multiplier": ((1, 3, 7, 7), (6, 1, 3, 3), {"group": 3}),
    "same_upper": ((1, 3, 10, 9), (4, 3, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [3, 2]}),
    "same_lower": ((1, 3, 10, 9), (4, 3, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [3, 2]}),
    "valid": ((1, 3, 10, 9), (4, 3, 4, 3), {"auto_pad": "VALID"}),
    "one_axis": ((2, 3, 11), (4, 3, 3), {"pads": [1, 1]}),
    "three_axes": ((1, 2, 5, 6, 4), (3, 2, 3, 2, 1), {"pads": [1, 0, 0, 1, 1, 0]}),
}


@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize("case", CASES)
def test_import_and_reference_agree_with_onnxruntime(case, opset, rng):
    x, w, attributes = CASES[case]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (x, w, w[:1])]
    # Two float32 sums of at most 36 products below 10: 2 * 36 * 2^-24 * 36 * 10 at the very worst.
    agree("Conv", arrays, opset=opset, atol=1e-4, **attributes)
    agree("Conv", arrays[:2], opset=opset, atol=1e-4, constant=(1,), **attributes)


@pytest.mark.parametrize(("groups", "merged"), [(6, 6), (6, 3), (6, 2)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_group_when_groups_become_one(groups, merged, bad, rng):
    x, own = rng.integers(-3, 4, (2, 12, 7, 6)).astype(np.float32), rng.integers(-2, 3, (18, 2, 3, 3))
    x[0, 5, 3, 3] = x[1, 0, 0, 0] = bad
    pads = ((1, 1), (1, 1))
    own = own.astype(np.float32)
    weights = spread_weights(own, groups, merged, 1)
    assert (np.signbit(weights) & (weights == 0)).sum() == weights.size - own.size
    one = Convolution((1, 1), (1, 1), pads, groups // merged, apart=True)
    with np.errstate(invalid="ignore"):
        (want,) = Convolution((1, 1), (1, 1), pads, groups).reference(x, own)
        (got,) = one.reference(x, weights)
    np.testing.assert_array_equal(got, want)
    assert not np.isfinite(want).all()


@pytest.mark.opencl
def test_the_general_kernel_leaves_out_weights_that_are_not_there(engine):
    primitive = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), apart=True)

    def with_nan(rng, shape):
        x = rng.standard_normal(shape).astype(np.float32)
        x[0, 1, 3, 3] = np.nan
        return x

    def merged(rng, shape):
        return spread_weights(rng.standard_normal((12, 2, 3, 3)).astype(np.float32), 3, 3, 1)

    draw = {0: with_nan, 1: merged}
    scale = lambda x, w: Convolution((1, 1), (1, 1), ((1, 1), (1, 1))).reference(np.abs(np.nan_to_num(x)), np.abs(w))[0]  # noqa: E731
    # 18 products with fma in float32, and the result.
    check_op(engine, primitive, (1, 6, 7, 6), (12, 6, 3, 3), ulps=19, scale=scale, constant=(1,), draw=draw)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_only_those_that_know_of_missing_weights_serve_them(kind):
    primitive = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), apart=True)
    layouts = (Layout(DType.F32, (1, 16, 9, 9)), Layout(DType.F32, (16, 16, 3, 3)))
    q = Query(primitive, layouts, primitive.infer(layouts), DeviceInfo(kind=kind), 2, constant=frozenset({1}))
    able = {c.name for c in IMPLEMENTATIONS.of("convolution") if c.serves.traits_refusal(q.traits) is None}
    assert able == ({"convolution.ref", "convolution.fsv16"} if kind == "cpu" else {"convolution.ref"})
    winograd = IMPLEMENTATIONS["convolution.winograd_fsv16"].refusal(q)
    assert kind == "gpu" or winograd == "does not know weights of -0 that are not there"


def test_refuses_weights_that_do_not_fit_the_channels():
    with pytest.raises(ShapeError, match="do not fit 5 channels"):
        Convolution((1,), (1,), ((0, 0),)).infer([Layout(DType.F32, (1, 5, 9)), Layout(DType.F32, (4, 3, 3))])


def test_refuses_a_window_larger_than_the_padded_input():
    with pytest.raises(ShapeError, match="does not fit 2 elements"):
        Convolution((1,), (1,), ((0, 0),)).infer([Layout(DType.F32, (1, 3, 2)), Layout(DType.F32, (4, 3, 3))])


def test_refuses_negative_pads():
    with pytest.raises(ShapeError, match="0 or more"):
        Convolution(pads=((-1, 0),)).bind([Layout(DType.F32, (1, 3, 9)), Layout(DType.F32, (4, 3, 3))], [None, None])


def test_a_gpu_gets_the_tiled_kernel_where_its_tiles_are_full():
    """The numbers are an H200's."""
    gpu = DeviceInfo(
        name="gpu:0", kind="gpu", compute_units=132, simd=1, flops=60e12, bytes_per_second=4e12, local_bytes=48 << 10
    )
    large = Query(
        Convolution((1, 1), (1, 1), ((1, 1), (1, 1))),
        (Layout(DType.F32, (8, 256, 56, 56)), Layout(DType.F32, (256, 256, 3, 3))),
        (Layout(DType.F32, (8, 256, 56, 56)),),
        gpu,
        2,
    )
    choice = choose(large)
    assert (choice.implementation.name, choice.because) == ("convolution.gpu_tiled", "cheapest")
    assert choice.slower["convolution.ref"] > choice.seconds
    assert all(
        "cpu devices" in reason
        for name, reason in choice.refusals.items()
        if not any(k in name for k in (".gpu_", ".nvidia_", ".intel_", ".amd_"))
    )
    assert "constant weights" in choice.refusals["convolution.gpu_vectors"]
    assert choose(replace(large, device=replace(gpu, local_bytes=4 << 10))).implementation.name == "convolution.ref"


DEVICE_CASES = {
    "pointwise": ((2, 19, 5, 7), (37, 19, 1, 1), Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))),
    "three_by_three": ((1, 16, 14, 14), (32, 16, 3, 3), Convolution((1, 1), (1, 1), ((1, 1), (1, 1)))),
    "strided": ((1, 20, 15, 13), (24, 20, 3, 3), Convolution((2, 2), (1, 1), ((1, 1), (1, 1)))),
    "first_layer": ((1, 3, 17, 19), (16, 3, 7, 7), Convolution((2, 2), (1, 1), ((3, 3), (3, 3)))),
    "uneven": ((2, 5, 9, 8), (7, 5, 3, 2), Convolution((2, 1), (1, 2), ((1, 0), (1, 2)))),
    "groups": ((1, 12, 9, 9), (8, 3, 3, 3), Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 4)),
    "depthwise": ((2, 33, 8, 9), (33, 1, 3, 3), Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), 33)),
    "one_axis": ((2, 3, 30), (5, 3, 4), Convolution((2,), (3,), ((1, 4),))),
    "three_axes": ((1, 2, 5, 6, 7), (3, 2, 3, 2, 1), Convolution((1, 2, 1), (1, 1, 1), ((1, 1), (0, 1), (0, 0)))),
}


def _scale(primitive):
    return lambda x, w, *b: primitive.reference(*map(np.abs, (x, w, *b)))[0]


def _length(w):
    """Products in a sum, and the bias: an ordinary float32 sum is off by at most that many units of its scale."""
    return int(np.prod(w[1:])) + 1


@pytest.mark.opencl
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("case", DEVICE_CASES)
def test_every_implementation_is_within_the_bound_of_its_sum(case, biased, engine):
    x, w, primitive = DEVICE_CASES[case]
    shapes = (x, w, w[:1]) if biased else (x, w)
    constant = range(1, len(shapes))
    only = _ordinary()
    check_op(engine, primitive, *shapes, ulps=_length(w), scale=_scale(primitive), constant=constant, only=only)


def _ordinary():
    """The implementations that sum products as they stand; transformed ones have bounds and tests of their own."""
    from clgraph.selector.implementation import IMPLEMENTATIONS

    return [n for n in IMPLEMENTATIONS if n.startswith("convolution.") and "wino" not in n]


@pytest.mark.opencl
@pytest.mark.parametrize("groups", [1, 16])
def test_padding_is_multiplied_so_that_a_nan_weight_reaches_every_result(groups, engine):
    def with_nan(rng, shape):
        w = rng.standard_normal(shape)
        w[0, 0, 0, 0] = np.nan
        return w

    primitive = Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), groups)
    x, w = np.zeros((1, 16, 5, 6)), with_nan(np.random.default_rng(), (16, 16 // groups, 3, 3))
    assert np.isnan(primitive.reference(x, w)[0]).sum() == 30, "all of the first channel, the corner too"
    draw, only = {1: with_nan}, _ordinary()
    scale = lambda x, w: _scale(primitive)(x, np.nan_to_num(w))  # noqa: E731
    given = {"scale": scale, "constant": (1,), "draw": draw, "families": ("normal",), "only": only}
    check_op(engine, primitive, x.shape, w.shape, ulps=_length(w.shape), **given)


@pytest.mark.opencl
def test_halves_are_summed_in_float(engine):
    x, w, primitive = DEVICE_CASES["uneven"]
    check_op(engine, primitive, x, w, ulps=_length(w), scale=_scale(primitive), dtype=DType.F16)


@pytest.mark.opencl
@pytest.mark.parametrize("case", ["pointwise", "uneven", "depthwise"])
def test_residual_and_activation_are_fused(case, engine):
    x, w, primitive = DEVICE_CASES[case]
    ((shape),) = [layout.shape for layout in primitive.infer([Layout(DType.F32, x), Layout(DType.F32, w)])]
    fused = [(Eltwise("add"), [shape], 1), (Activation("relu"), [], 0), (Eltwise("mul"), [(w[0], 1, 1)], 0)]
    # The sum and the residual add up to the scale; the addition and the product round once each.
    scale = lambda x, w, b, r, m: (_scale(primitive)(x, w, b) + np.abs(r)) * np.abs(m)  # noqa: E731
    shapes, only = (x, w, w[:1]), _ordinary()
    check_op(engine, primitive, *shapes, ulps=_length(w) + 2, scale=scale, constant=(1, 2), fused=fused, only=only)
